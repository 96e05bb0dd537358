//! The GPUs of a capture.

use clap::error::ErrorKind;
use gpumem_analyzer::session::Session;
use gpumem_analyzer::views::Summary;

/// Rejects a GPU that the capture does not have.
pub fn known(session: &Session, asked: Option<u8>) -> anyhow::Result<()> {
    let Some(asked) = asked else {
        return Ok(());
    };
    let devices = Summary::of(session).devices;
    let ordinals: Vec<u8> = devices.iter().map(|of| of.ordinal).collect();
    if ordinals.contains(&asked) {
        return Ok(());
    }
    let has = match &ordinals[..] {
        [] => "no GPU".to_owned(),
        [only] => format!("only GPU {only}"),
        all => {
            let all: Vec<String> = all.iter().map(u8::to_string).collect();
            format!("GPUs {}", all.join(", "))
        }
    };
    let text = format!("--device {asked}: the capture has {has}");
    Err(clap::Error::raw(ErrorKind::InvalidValue, text).into())
}
