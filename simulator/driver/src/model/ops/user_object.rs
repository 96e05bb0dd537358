//! Operations on the state: user objects, which are objects of the program that graphs keep alive.

use crate::ffi::{Answer, CuError, require};
use crate::model::graphs::Graphs;
use crate::model::user_object::*;

impl Graphs {
    /// `cuUserObjectCreate`.
    pub fn create_object(
        &mut self,
        data: usize,
        destructor: extern "C" fn(usize),
        references: u32,
    ) -> usize {
        self.objects.insert(UserObject {
            data,
            destructor,
            references,
        })
    }

    /// `cuUserObjectRetain`.
    pub fn retain_object(&mut self, object: usize, count: u32) -> Answer {
        let found = self.objects.get_mut(object);
        let found = found.ok_or(CuError::INVALID_VALUE)?;
        let more = found.references.checked_add(count);
        found.references = more.ok_or(CuError::INVALID_VALUE)?;
        Ok(())
    }

    /// `cuUserObjectRelease`.
    pub fn release_object(&mut self, object: usize, count: u32, ended: &mut Ended) -> Answer {
        let found = self.objects.get_mut(object);
        let found = found.ok_or(CuError::INVALID_VALUE)?;
        let left = found.references.checked_sub(count);
        found.references = left.ok_or(CuError::INVALID_VALUE)?;
        if found.references == 0 {
            ended.0.extend(self.objects.remove(object));
        }
        Ok(())
    }

    /// `cuGraphRetainUserObject`: adds a reference, or moves one of the caller's.
    pub fn give_object(&mut self, graph: usize, object: usize, count: u32, moved: bool) -> Answer {
        self.get(graph)?;
        let found = self.objects.get(object).ok_or(CuError::INVALID_VALUE)?;
        if moved {
            require(found.references >= count)?;
        } else {
            self.retain_object(object, count)?;
        }
        *self.get_mut(graph)?.objects.entry(object).or_default() += count;
        Ok(())
    }

    /// `cuGraphReleaseUserObject`.
    pub fn take_object(
        &mut self,
        graph: usize,
        object: usize,
        count: u32,
        ended: &mut Ended,
    ) -> Answer {
        let objects = &mut self.get_mut(graph)?.objects;
        let held = objects.get_mut(&object).ok_or(CuError::INVALID_VALUE)?;
        let left = held.checked_sub(count);
        *held = left.ok_or(CuError::INVALID_VALUE)?;
        if *held == 0 {
            objects.remove(&object);
        }
        self.release_object(object, count, ended)
    }
}
