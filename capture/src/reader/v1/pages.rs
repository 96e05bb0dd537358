//! The pages, in the order in which they lie in the file.

use super::super::input::Input;
use super::super::{Progress, ReadError};
use super::cursor::Cursor;
use super::dynamic::Dynamic;

pub(super) struct Pages<'a> {
    input: &'a Input,
    nonce: u64,
    offset: u64,
}

impl<'a> Pages<'a> {
    pub(super) fn new(input: &'a Input, nonce: u64, offset: u64) -> Self {
        Self {
            input,
            nonce,
            offset,
        }
    }

    pub(super) fn read(
        &mut self,
        _cursor: &mut Cursor<'_>,
        _progress: &Progress,
        _published: u64,
        _past: bool,
    ) -> Result<bool, ReadError> {
        let _ = (self.input, self.nonce, self.offset);
        Ok(false)
    }

    pub(super) fn finish(
        &mut self,
        _cursor: &mut Cursor<'_>,
        _dynamic: &Dynamic,
    ) -> Result<(), ReadError> {
        Ok(())
    }
}
