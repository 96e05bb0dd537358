//! `record_again FROM TO MIB`: copies the records of a full capture into a bounded one of that size. Both captures then
//! describe the same events, so tests expect the same results from both.

mod again;

use std::path::Path;
use std::process::ExitCode;

use again::Again;
use gpumem_capture::{Options, Writer};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, mib] = &arguments[..] else {
        eprintln!("usage: record_again FROM TO MIB");
        return ExitCode::from(2);
    };
    let bytes = mib.parse::<u64>().expect("a number of MiB") << 20;
    let options = Options::default().bounded(Some(bytes));
    let writer = Writer::create(Path::new(to), &options).expect("a new file");
    let mut again = Again::into(writer, true);
    again.all_of(Path::new(from), &mut |_, _| {});
    again.finish();
    ExitCode::SUCCESS
}
