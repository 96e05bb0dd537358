//! The same in Rust, whose names must be demangled.

type Allocate = extern "C" fn(*mut u64, usize) -> i32;

mod pool {
    pub struct Arena<T>(pub T);

    impl<T: Copy + Into<usize>> Arena<T> {
        #[inline(never)]
        pub fn hidden(&self, allocate: super::Allocate) -> i32 {
            let mut pointer = 0;
            allocate(&mut pointer, self.0.into() << 20).wrapping_mul(3) // the call in hidden
        }

        #[inline(always)]
        pub fn step(&self, allocate: super::Allocate) -> i32 {
            self.hidden(allocate).wrapping_mul(5) // the call in step
        }
    }
}

#[no_mangle]
pub extern "C" fn grow(allocate: Allocate) -> i32 {
    pool::Arena(1_u8).step(allocate).wrapping_mul(7) // the call in grow
}
