//! Functions that are not simulated. They exist so that programs link, and print a message when
//! called.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Prints on stderr, once for each `said`, that `name` is not simulated and which status it
/// returns.
pub fn say(said: &AtomicBool, name: &str, answer: &str) {
    if !said.swap(true, Ordering::Relaxed) {
        // Without a stderr the line is lost and the status is still returned.
        let _ = writeln!(
            std::io::stderr(),
            "gpumem simulator: {name} is not simulated and answers {answer}"
        );
    }
}

/// Makes exports that ignore their parameters. Each prints once on stderr that it is not simulated,
/// and returns the same status.
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
