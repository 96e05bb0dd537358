//! What `gpumem whatif --format json` printed about a capture.

use std::fmt;

use gpumem_capture::DeviceOrdinal;
use gpumem_judge::{Replays, Setting};
use serde::Deserialize;

/// The schema that is read.
const SCHEMA: &str = "gpumem/whatif/1";

/// Replays of a run under other settings of PyTorch's allocator, by device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaysOfRun(Vec<(DeviceOrdinal, Replays)>);

/// The text is not the output of `gpumem whatif --format json`.
#[derive(Debug)]
pub struct NotReplays(String);

impl fmt::Display for NotReplays {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "it is not the output of gpumem whatif --format json: {}",
            self.0
        )
    }
}

impl std::error::Error for NotReplays {}

#[derive(Deserialize)]
struct Output {
    schema: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    exact: bool,
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    device: u8,
    settings: String,
    replays: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    settings: String,
    figures_greatest: Figures,
    fits: Option<bool>,
    recorded_failures: u64,
    recorded_failures_saved: u64,
}

#[derive(Deserialize)]
struct Figures {
    #[serde(rename = "reserved_bytes.all.peak")]
    reserved: u64,
}

impl Row {
    /// What is uncertain does not count as fitting.
    fn setting(&self) -> Setting {
        let saved = self.recorded_failures_saved >= self.recorded_failures;
        Setting {
            settings: self.settings.clone(),
            fits: self.fits == Some(true) && saved,
            reserved: self.figures_greatest.reserved,
        }
    }
}

impl ReplaysOfRun {
    /// Reads the output for one capture.
    ///
    /// # Errors
    /// If it is something else.
    pub fn parse(text: &[u8]) -> Result<Self, NotReplays> {
        let output: Output =
            serde_json::from_slice(text).map_err(|error| NotReplays(error.to_string()))?;
        if output.schema != SCHEMA {
            return Err(NotReplays(format!("its schema is not {SCHEMA}")));
        }
        let mut all: Vec<(DeviceOrdinal, Replays)> = Vec::new();
        for device in output.data.devices {
            let ordinal = DeviceOrdinal(device.device);
            if all.iter().any(|(of, _)| *of == ordinal) {
                return Err(NotReplays("it is about several captures".into()));
            }
            let is_text = |row: &Row| row.settings.chars().all(|of| (' '..='~').contains(&of));
            if !device.replays.iter().all(is_text) {
                return Err(NotReplays("its settings have control characters".into()));
            }
            let (own, others): (Vec<&Row>, Vec<&Row>) = device
                .replays
                .iter()
                .partition(|row| row.settings == device.settings);
            // Of several devices, the first one's recorded settings are replayed.
            let Some(own) = own.first() else {
                continue;
            };
            let replays = Replays {
                is_exact: output.data.exact,
                recorded: own.setting(),
                others: others.into_iter().map(Row::setting).collect(),
            };
            all.push((ordinal, replays));
        }
        Ok(Self(all))
    }

    /// Those of a device.
    pub fn on(&self, device: DeviceOrdinal) -> Option<Replays> {
        let of = self.0.iter().find(|(of, _)| *of == device);
        of.map(|(_, replays)| replays.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(settings: &str, fits: &str, failures: u64, saved: u64) -> String {
        format!(
            r#"{{"settings":"{settings}","fits":{fits},"recorded_failures":{failures},"recorded_failures_saved":{saved},
            "figures_greatest":{{"reserved_bytes.all.peak":7}}}}"#
        )
    }

    fn output(rows: &[String]) -> String {
        format!(
            r#"{{"schema":"gpumem/whatif/1","data":{{"exact":true,"devices":[{{"device":1,"settings":"","replays":[{}]}}]}}}}"#,
            rows.join(",")
        )
    }

    #[test]
    fn what_serves_each_failure_for_sure_fits() {
        let rows = [
            row("", "true", 2, 0),
            row("a", "true", 2, 1),
            row("b", "null", 2, 2),
            row("c", "true", 2, 2),
        ];
        let of = ReplaysOfRun::parse(output(&rows).as_bytes());
        let of = of.map(|of| (of.on(DeviceOrdinal(1)), of.on(DeviceOrdinal(0))));
        let Ok((Some(replays), None)) = of else {
            panic!("{of:?}");
        };
        assert!(replays.shows_the_failure());
        assert_eq!(replays.remedy().map(|of| &*of.settings), Some("c"));
    }

    #[test]
    fn other_text_is_refused_with_the_reason() {
        let of =
            |text: &str| ReplaysOfRun::parse(text.as_bytes()).map_err(|error| error.to_string());
        for (text, why) in [
            ("", "EOF"),
            ("[]", "invalid"),
            (
                &output(&[row("a\\u001b", "true", 0, 0)]),
                "control characters",
            ),
            (&output(&[]).replace("whatif/1", "plan/1"), "schema"),
        ] {
            let error = of(text).expect_err(text);
            assert!(
                error.contains(why) && error.contains("gpumem whatif"),
                "{error}"
            );
        }
    }
}
