//! User objects: objects of the program that graphs keep alive.

/// One user object.
#[derive(Clone, Copy, Debug)]
pub struct UserObject {
    /// The program's data.
    pub(crate) data: usize,
    /// The destructor.
    pub(crate) destructor: extern "C" fn(usize),
    pub(crate) references: u32,
}

/// Objects without references, to be destroyed without the lock.
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
