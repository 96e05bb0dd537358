//! Figures and findings as text.

use super::markdown::{code, text};
use crate::account::many;
use crate::render::{bytes, count, signed};
use crate::views::ci::{Allowance, DevicePeaks, Finding, Growth, Judged, Workload};
use gpumem_capture::Level;

/// A change such as `+48.0 MiB (+3.1 %)` or `-1.00 KiB (-12.5 %)`, without the share if the base is 0. `has_base`:
/// whether there is a base to compare with.
pub fn changed(row: &DevicePeaks, has_base: bool) -> String {
    match (row.base_bytes, row.head_bytes, row.change_bytes) {
        (_, _, Some(0)) => "unchanged".into(),
        (Some(base), _, Some(change)) => match percent(base, change) {
            Some(percent) => format!("{} ({percent})", plus(change)),
            None => plus(change),
        },
        (None, ..) if has_base => "new".into(),
        (None, ..) => "–".into(),
        _ => "removed".into(),
    }
}

/// A change with its sign.
pub fn plus(change: i64) -> String {
    let sign = if change > 0 { "+" } else { "" };
    format!("{sign}{}", signed(change))
}

/// A change relative to the base, with its sign; `None` if the base is 0.
pub fn percent(base: u64, change: i64) -> Option<String> {
    if base == 0 {
        return None;
    }
    let sign = if change < 0 { "-" } else { "+" };
    let share = change.unsigned_abs() as f64 * 100.0 / base as f64;
    Some(match share {
        share if share > 0.0 && share < 0.05 => format!("{sign}<0.1 %"),
        share => format!("{sign}{share:.1} %"),
    })
}

/// A limit of growth, such as `2 %` or `64.0 MiB`.
pub fn limit(growth: Growth) -> String {
    match growth {
        Growth::Bytes(size) => bytes(size),
        Growth::Percent(millionths) => format!("{} %", millionths as f64 / 1e6),
    }
}

/// Bytes rounded and exact.
pub fn exactly(size: u64) -> String {
    match size {
        ..1024 => bytes(size),
        _ => format!("{} ({} bytes)", bytes(size), count(size)),
    }
}

/// A phrase for peaks of a level.
pub fn of_level(level: Level) -> &'static str {
    match level {
        Level::TENSOR => "of tensors",
        Level::DRIVER => "from CUDA",
        Level::HOST => "of pinned host memory",
        Level::PHYSICAL => "of the card's memory",
        _ => "of another level",
    }
}

/// A workload, and the GPU if it has several.
pub fn place(workload: &Workload, device: Option<u8>, name: impl Fn(&str) -> String) -> String {
    let name = name(&workload.name);
    match (workload.devices.len() > 1, device) {
        (false, _) => name,
        (true, Some(device)) => format!("{name}, GPU {device}"),
        (true, None) => format!("{name}, no GPU"),
    }
}

/// A finding as an item of a list.
pub fn finding(judged: &Judged, finding: &Finding) -> String {
    let workload = &judged.workload;
    match finding {
        Finding::Grew {
            device,
            change_bytes,
            allowed_bytes,
            limit: by,
        } => format!(
            "{} grew by {}; {} allowed{}",
            place(workload, *device, code),
            exactly(*change_bytes),
            exactly(*allowed_bytes),
            match by {
                Growth::Bytes(_) => String::new(),
                Growth::Percent(_) => format!(" ({})", limit(*by)),
            }
        ),
        Finding::OverBudget {
            device,
            level,
            peak_bytes,
            budget_bytes,
        } => format!(
            "{} uses {} {}; its budget is {}",
            place(workload, *device, code),
            exactly(*peak_bytes),
            of_level(*level),
            exactly(*budget_bytes),
        ),
        Finding::Allowed {
            device,
            change_bytes,
            allowance: by,
        } => format!(
            "allowed: {} grew by {}; {}",
            place(workload, *device, code),
            exactly(*change_bytes),
            allowance(by)
        ),
        Finding::Unjudged { why } => format!("not judged: {}, {}", code(&workload.name), text(why)),
    }
}

/// An allowance, such as `64.0 MiB until 2026-12-31: bigger vocabulary`.
pub fn allowance(of: &Allowance) -> String {
    let reason = of
        .reason
        .as_deref()
        .map(|reason| format!(": {}", text(reason)));
    format!(
        "{} until {}{}",
        limit(of.grow),
        of.until,
        reason.unwrap_or_default()
    )
}

/// A number of workloads, such as `1 workload` or `4 workloads`.
pub fn workloads(count: usize) -> String {
    many(count as u64, "workload", "workloads")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_never_rounded_to_nothing() {
        assert_eq!(percent(1000, 31).as_deref(), Some("+3.1 %"));
        assert_eq!(percent(1 << 30, 512).as_deref(), Some("+<0.1 %"));
        assert_eq!(percent(8, -1).as_deref(), Some("-12.5 %"));
        assert_eq!(percent(0, 5), None);
        assert_eq!(limit(Growth::Percent(500_000)), "0.5 %");
    }
}
