//! The workspace that a convolution requests, by a model; docs/cudnn.md has its sources and range.
//!
//! | layout | forward, data gradient | weight gradient |
//! |---|---|---|
//! | NHWC | 0 | 2 × the filter: sums in float |
//! | other | copies of input, filter and output in NHWC | the same and 2 × the filter |
//!
//! `GPUMEM_SIM_CUDNN_WORKSPACE`: `model`, `0`, a size for every convolution and RNN, or `high`,
//! four times input, filter and output. cuDNN's own variable `CUDNN_CONV_WSCAP_DBG` limits it, in
//! MiB.

use crate::shape::Shape;
use gpumem_sim_machine::parse_size;
use std::sync::OnceLock;

/// The pass of a convolution, by its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The output.
    Forward,
    /// The gradient of the input.
    Data,
    /// The gradient of the filter.
    Filter,
}

/// The value of `GPUMEM_SIM_CUDNN_WORKSPACE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The model.
    Model,
    /// The upper end of its range.
    High,
    /// This many bytes for any shapes.
    Fixed(u64),
}

impl Setting {
    fn parse(text: Option<&str>) -> Result<Self, String> {
        match text.map(str::trim) {
            None | Some("" | "model") => Ok(Self::Model),
            Some("high") => Ok(Self::High),
            Some(text) => match parse_size(text) {
                Ok(bytes) => Ok(Self::Fixed(bytes)),
                Err(_) => Err(format!(
                    "gpumem simulator: GPUMEM_SIM_CUDNN_WORKSPACE={text} is neither model, high nor a size: \
                     the model is used"
                )),
            },
        }
    }

    /// The setting from the environment, read once. An invalid value is reported once.
    pub fn get() -> Self {
        static SETTING: OnceLock<Setting> = OnceLock::new();
        *SETTING.get_or_init(|| {
            let text = std::env::var("GPUMEM_SIM_CUDNN_WORKSPACE").ok();
            Self::parse(text.as_deref()).unwrap_or_else(|complaint| {
                eprintln!("{complaint}");
                Self::Model
            })
        })
    }
}

/// `CUDNN_CONV_WSCAP_DBG` in bytes; an invalid value sets no limit.
fn limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let text = std::env::var("CUDNN_CONV_WSCAP_DBG").unwrap_or_default();
        let mib = text.trim().parse::<u64>();
        mib.map_or(u64::MAX, |mib| mib.saturating_mul(1 << 20))
    })
}

/// The model: `x` is the input, `w` the filter, `y` the output; each may be a gradient.
pub fn model(pass: Pass, x: &Shape, w: &Shape, y: &Shape) -> u64 {
    let sums = match pass {
        Pass::Filter => w.bytes().saturating_mul(2),
        Pass::Forward | Pass::Data => 0,
    };
    if x.is_channels_last() && y.is_channels_last() {
        return sums;
    }
    all(x, w, y).saturating_add(sums)
}

fn all(x: &Shape, w: &Shape, y: &Shape) -> u64 {
    x.bytes()
        .saturating_add(w.bytes())
        .saturating_add(y.bytes())
}

/// The upper end of the model's range. The most that NVIDIA's cuDNN 7.6.5 requested in 120 cases
/// was 3.6 times (docs/cudnn.md).
fn high(x: &Shape, w: &Shape, y: &Shape) -> u64 {
    all(x, w, y).saturating_mul(4)
}

/// The workspace that the convolution requests, by the settings. At most `i64::MAX`, because the
/// API has an `i64`.
pub fn convolution(pass: Pass, x: &Shape, w: &Shape, y: &Shape) -> u64 {
    let bytes = match Setting::get() {
        Setting::Model => model(pass, x, w, y),
        Setting::High => high(x, w, y),
        Setting::Fixed(bytes) => bytes,
    };
    bytes.min(limit()).min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::DataType;

    /// Two bytes an element.
    fn shape(extents: [i64; 4], channels_last: bool) -> Shape {
        let [_, c, h, w] = extents;
        let strides = match channels_last {
            true => [c * h * w, 1, w * c, c],
            false => [c * h * w, h * w, w, 1],
        };
        Shape {
            kind: DataType(2),
            extents: extents.to_vec(),
            strides: strides.to_vec(),
        }
    }

    #[test]
    fn the_model_is_as_its_page_says() {
        for (channels_last, pass, bytes) in [
            (true, Pass::Forward, 0),
            (true, Pass::Data, 0),
            (true, Pass::Filter, 2 * 8 * 3 * 9 * 2),
            (
                false,
                Pass::Forward,
                2 * (4 * 3 * 64 + 8 * 3 * 9 + 4 * 8 * 64),
            ),
            (false, Pass::Data, 2 * (4 * 3 * 64 + 8 * 3 * 9 + 4 * 8 * 64)),
            (
                false,
                Pass::Filter,
                2 * (4 * 3 * 64 + 3 * 8 * 3 * 9 + 4 * 8 * 64),
            ),
        ] {
            let x = shape([4, 3, 8, 8], channels_last);
            let (w, y) = (
                shape([8, 3, 3, 3], false),
                shape([4, 8, 8, 8], channels_last),
            );
            assert_eq!(model(pass, &x, &w, &y), bytes, "{channels_last} {pass:?}");
        }
    }

    #[test]
    fn settings_are_words_and_sizes() {
        assert_eq!(Setting::parse(None), Ok(Setting::Model));
        assert_eq!(Setting::parse(Some("model")), Ok(Setting::Model));
        assert_eq!(Setting::parse(Some("high")), Ok(Setting::High));
        assert_eq!(Setting::parse(Some("0")), Ok(Setting::Fixed(0)));
        assert_eq!(Setting::parse(Some("1GiB")), Ok(Setting::Fixed(1 << 30)));
        assert!(Setting::parse(Some("much")).is_err());
    }
}
