//! Arguments that several tools take.

use gpumem_analyzer::ask::Of;
use gpumem_analyzer::moment;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::views::Within;
use gpumem_capture::Level;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// A level of memory.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LevelName {
    /// Inside PyTorch's pool: its tensors
    Tensor,
    /// Device memory from CUDA
    Driver,
    /// Pinned host memory
    Host,
}

impl From<LevelName> for Level {
    fn from(level: LevelName) -> Self {
        match level {
            LevelName::Tensor => Self::TENSOR,
            LevelName::Driver => Self::DRIVER,
            LevelName::Host => Self::HOST,
        }
    }
}

/// Which bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OfName {
    /// That are live at the point in time
    #[default]
    Live,
    /// Allocated over the whole run, or up to the point in time; each allocation counts
    Allocated,
    /// Allocated for blocks that were freed by the next event
    Temporary,
    /// Live bytes of blocks that stayed live over the ends of at least 3 steps or rounds
    Kept,
    /// Live bytes of lines that grow from step to step, or from round to round
    Growing,
}

impl From<OfName> for Of {
    fn from(of: OfName) -> Self {
        match of {
            OfName::Live => Self::Live,
            OfName::Allocated => Self::Allocated,
            OfName::Temporary => Self::Temporary(Within::Events(1)),
            OfName::Kept => Self::Kept,
            OfName::Growing => Self::Growing,
        }
    }
}

/// A moment of a run.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[schemars(transparent)]
pub struct Moment(#[schemars(with = "String")] pub At);

impl Default for Moment {
    fn default() -> Self {
        Self(At::Peak)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A number is an event's.
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            number if number.is_u64() => number.to_string(),
            other => {
                let wrong = "expected the number of an event, or text such as peak, step 3 or 1.5s";
                return Err(D::Error::custom(format!("at {other}: {wrong}")));
            }
        };
        read(&text).map(Self).map_err(D::Error::custom)
    }
}

/// Reads a moment; `step 3` and `event 12` are taken, too.
fn read(text: &str) -> Result<At, String> {
    let text = text.trim();
    let plain = match text.split_once(' ') {
        Some(("step", step)) => format!("step={}", step.trim()),
        Some(("event", event)) => event.trim().to_owned(),
        _ => text.to_owned(),
    };
    let plain = plain.strip_prefix("event=").unwrap_or(&plain);
    moment::parse(plain).map_err(|expected| format!("at {text:?}: {expected}"))
}

#[cfg(test)]
mod tests {
    use gpumem_capture::Seq;
    use serde_json::json;

    use super::*;

    #[test]
    fn moments_are_text_or_the_number_of_an_event() {
        let read = |value: Value| serde_json::from_value::<Moment>(value).map(|moment| moment.0);
        assert_eq!(read(json!("peak")).unwrap(), At::Peak);
        assert_eq!(read(json!("step 3")).unwrap(), At::Step(3));
        assert_eq!(read(json!("step=3")).unwrap(), At::Step(3));
        for event in [json!("event 12"), json!("12"), json!(12), json!("event=12")] {
            assert_eq!(read(event).unwrap(), At::Event(Seq(12)));
        }
        let said = read(json!("later")).unwrap_err().to_string();
        assert!(said.contains("expected peak, end, oom"), "{said}");
        for (given, shown) in [(json!(1.5), "1.5"), (json!(-3), "-3"), (json!([1]), "[1]")] {
            let said = read(given).unwrap_err().to_string();
            let wanted = format!("at {shown}: expected the number of an event, or text");
            assert!(said.starts_with(&wanted), "{said}");
        }
    }
}
