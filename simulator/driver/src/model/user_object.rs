//! User objects: things of the program's that graphs keep alive.

/// One user object.
#[derive(Clone, Copy, Debug)]
pub struct UserObject {
    /// What the program gave.
    pub(crate) data: usize,
    /// What ends it.
    pub(crate) destructor: extern "C" fn(usize),
    pub(crate) references: u32,
}

/// Objects that nobody refers to any more: left to end without the lock.
#[must_use]
#[derive(Debug, Default)]
pub struct Ended(pub(crate) Vec<UserObject>);

impl Ended {
    /// Calls the program's destructors. The state must not be locked.
    pub fn run(self) {
        for object in self.0 {
            (object.destructor)(object.data);
        }
    }
}
