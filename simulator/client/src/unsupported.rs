//! Functions that are there so that programs link, and say that they do nothing.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says on stderr, once for each `said`, that `name` is not simulated and what it answers.
pub fn say(said: &AtomicBool, name: &str, answer: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        // A program without a stderr misses the line, not the status.
        let _ = writeln!(
            std::io::stderr(),
            "gpumem simulator: {name} is not simulated and answers {answer}"
        );
    }
}

/// Makes exports that need no parameters, whatever a caller passes: each says once on stderr that it
/// is not simulated, and answers with one status.
///
/// `unsupported! { STATUS => Type = "NAME_OF_THE_STATUS"; name… }`
#[macro_export]
macro_rules! unsupported {
    ($status:expr => $answer:ty = $text:literal; $($name:ident)*) => {
        /// The names of this family.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $name() -> $answer {
                static SAID: std::sync::atomic::AtomicBool =
                    std::sync::atomic::AtomicBool::new(false);
                $crate::unsupported::say(&SAID, stringify!($name), $text);
                $status
            }
        )*
    };
}
