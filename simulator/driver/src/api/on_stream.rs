//! Functions that put work on a stream: their two forms, and what becomes of the work.

use crate::ffi::Answer;
use crate::model::graph::Work;
use crate::model::state::state;
use crate::model::stream::On;

/// Makes the two forms of functions of a stream: the ordinary one, and the one whose null stream is
/// the thread's own (`_ptsz`). A row: what it is, both names, the parameters before and after the
/// stream, and the inside, which gets the stream first.
macro_rules! on_stream {
    ($($doc:literal $legacy:ident $own:ident
       [$($before:ident: $before_type:ty),*] [$($after:ident: $after_type:ty),*] = $inside:path;)*) => {$(
        #[doc = $doc]
        #[allow(clippy::too_many_arguments)]
        pub extern "C" fn $legacy(
            $($before: $before_type,)* stream: $crate::ffi::Handle, $($after: $after_type,)*
        ) -> $crate::ffi::Answer {
            let on = $crate::model::stream::On::legacy(stream);
            $inside(on, $($before,)* $($after,)*)
        }

        #[doc = concat!($doc, " The null stream is the thread's own.")]
        #[allow(clippy::too_many_arguments)]
        pub extern "C" fn $own(
            $($before: $before_type,)* stream: $crate::ffi::Handle, $($after: $after_type,)*
        ) -> $crate::ffi::Answer {
            let on = $crate::model::stream::On::own(stream);
            $inside(on, $($before,)* $($after,)*)
        }
    )*};
}
pub(super) use on_stream;

/// Does work now, or makes a node of it if its stream is captured.
pub fn submit(on: On, work: Work, now: impl FnOnce() -> Answer) -> Answer {
    if state()?.captured_as(on, work)? {
        return Ok(());
    }
    now()
}

/// For synchronous work, which cannot be captured.
pub fn synchronously(now: impl FnOnce() -> Answer) -> Answer {
    state()?.synchronous_call()?;
    now()
}
