//! Functions that submit work to a stream: their two variants, and how the work is done.

use crate::ffi::Answer;
use crate::model::graph::Work;
use crate::model::state::state;
use crate::model::stream::On;

/// Makes both variants of stream functions: the ordinary one, and the one whose null stream is the
/// thread's own (`_ptsz`). A row: a description, both names, the parameters before and after the
/// stream, and the body, whose first parameter is the stream.
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

/// Does the work now, or adds a node if its stream is captured.
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
