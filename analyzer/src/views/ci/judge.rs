//! Checks workloads against limits, budgets and allowances.

use schemars::JsonSchema;
use serde::Serialize;

use super::rules::{Allowance, Budget, Growth, Rules};
use super::workload::{DevicePeaks, Workload};
use crate::views::json::by_name;
use gpumem_capture::Level;

/// The result of a rule for a workload. A rule that holds without an allowance has no finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Finding {
    /// The peak grew by more than its limit. The check fails.
    Grew {
        /// Device ordinal; `None` for memory of no device.
        device: Option<u8>,
        /// Growth of the peak in bytes: the head's less the base's.
        change_bytes: u64,
        /// The most bytes by which the peak may grow: `limit`, computed for the base's peak.
        allowed_bytes: u64,
        /// The limit that applies, of `fail_over`, the budget or the largest allowance: `{"bytes": n}` or
        /// `{"percent": x}` of the base's peak.
        limit: Growth,
    },
    /// The head's peak is above its budget. The check fails.
    OverBudget {
        /// Device ordinal; `None` for memory of no device.
        device: Option<u8>,
        /// The level of the peak: `tensor`, `driver`, `physical` or `host`.
        #[serde(serialize_with = "by_name")]
        #[schemars(with = "String")]
        level: Level,
        /// The head's peak in bytes.
        peak_bytes: u64,
        /// The most bytes that the budget allows.
        budget_bytes: u64,
    },
    /// The peak grew by more than its limit, but not by more than an allowance. The check passes.
    Allowed {
        /// Device ordinal; `None` for memory of no device.
        device: Option<u8>,
        /// Growth of the peak in bytes: the head's less the base's.
        change_bytes: u64,
        /// The allowance that covers the growth: the largest one that has not expired.
        allowance: Allowance,
    },
    /// A rule cannot be checked, because the figures of a capture are incomplete or missing.
    Unjudged {
        /// The reason, after the side that it concerns: `base: …` or `head: …`.
        why: String,
    },
}

/// The result of checking one workload or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All rules that were checked hold, or there are no rules.
    Passes,
    /// At least one rule could not be checked, and no rule is broken.
    Unjudged,
    /// At least one rule is broken.
    Fails,
}

/// A workload with the results of its rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Judged {
    /// The workload.
    #[serde(flatten)]
    pub workload: Workload,
    /// Rules that are broken, hold only by an allowance, or cannot be checked. Empty: all rules hold, or no rule
    /// applies.
    pub findings: Vec<Finding>,
}

impl Judged {
    /// The worst outcome of its findings.
    pub fn outcome(&self) -> Outcome {
        let outcomes = self.findings.iter().map(|finding| match finding {
            Finding::Grew { .. } | Finding::OverBudget { .. } => Outcome::Fails,
            Finding::Unjudged { .. } => Outcome::Unjudged,
            Finding::Allowed { .. } => Outcome::Passes,
        });
        outcomes.max().unwrap_or(Outcome::Passes)
    }
}

/// All workloads of a change, checked by rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The worst outcome of the workloads; at least `unjudged` if `absent` is not empty.
    pub outcome: Outcome,
    /// The rules by which the workloads were checked.
    pub rules: Rules,
    /// Workloads of the base, the head or both, with their findings.
    pub workloads: Vec<Judged>,
    /// Allowances whose last day is before `today`, for workloads that the head has. They have no effect.
    pub expired: Vec<Allowance>,
    /// Names of workloads that have a budget and no capture in the head. Empty if the head is a single file; tests
    /// (`::` in the name) are not included.
    pub absent: Vec<String>,
}

impl Comparison {
    /// Checks all workloads by the rules.
    pub fn judge(workloads: Vec<Workload>, rules: Rules) -> Self {
        let is_there = |name: &str| {
            workloads
                .iter()
                .any(|of| of.name == name && of.head.is_some())
        };
        let expired = rules.allowances.iter();
        let expired = expired
            .filter(|of| of.until < rules.today && is_there(&of.workload))
            .cloned()
            .collect();
        // Names with :: are tests, which the pytest plugin checks.
        let absent = rules.budgets.iter().map(|budget| &budget.workload);
        let absent: Vec<String> = absent
            .filter(|name| rules.are_all_expected && !name.contains("::") && !is_there(name))
            .cloned()
            .collect();
        let workloads: Vec<Judged> = workloads
            .into_iter()
            .map(|workload| Judged {
                findings: findings(&workload, &rules),
                workload,
            })
            .collect();
        let outcomes = workloads.iter().map(Judged::outcome);
        let missing = (!absent.is_empty()).then_some(Outcome::Unjudged);
        Self {
            outcome: outcomes.chain(missing).max().unwrap_or(Outcome::Passes),
            rules,
            workloads,
            expired,
            absent,
        }
    }
}

fn findings(workload: &Workload, rules: &Rules) -> Vec<Finding> {
    let mut findings: Vec<Finding> = workload
        .missing()
        .map(|(side, line)| Finding::Unjudged {
            why: format!("{side}: {line}"),
        })
        .collect();
    let budget = rules
        .budgets
        .iter()
        .find(|budget| budget.workload == workload.name);
    let is_exact =
        |side: &Option<super::Quality>| side.as_ref().is_some_and(|of| of.missing.is_empty());
    let (base, head) = (is_exact(&workload.base), is_exact(&workload.head));
    if base && head {
        let rows = workload.devices.iter();
        findings.extend(rows.filter_map(|row| growth(&workload.name, row, budget, rules)));
    }
    if let Some((budget, peak)) = budget.and_then(|budget| Some((budget, budget.peak?)))
        && head
    {
        over_budget(workload, budget, peak, &mut findings);
    }
    findings
}

/// Checks the growth of one device's peak. `None`: the growth is within its limit, or there is no limit.
fn growth(
    name: &str,
    row: &DevicePeaks,
    budget: Option<&Budget>,
    rules: &Rules,
) -> Option<Finding> {
    let (base, change) = (row.base_bytes?, row.change_bytes?);
    let change = u64::try_from(change).ok()?;
    let limit = budget.and_then(|budget| budget.grow).or(rules.fail_over)?;
    let allowed = limit.of(base);
    if change <= allowed {
        return None;
    }
    let allowances = rules.allowances.iter();
    let greatest = allowances
        .filter(|of| of.workload == name && rules.today <= of.until)
        .max_by_key(|of| of.grow.of(base));
    Some(match greatest {
        Some(allowance) if change <= allowance.grow.of(base) => Finding::Allowed {
            device: row.device,
            change_bytes: change,
            allowance: allowance.clone(),
        },
        // A growth beyond an allowance breaks a rule, with the allowance as the limit if it is above the usual one.
        Some(allowance) if allowance.grow.of(base) > allowed => Finding::Grew {
            device: row.device,
            change_bytes: change,
            allowed_bytes: allowance.grow.of(base),
            limit: allowance.grow,
        },
        _ => Finding::Grew {
            device: row.device,
            change_bytes: change,
            allowed_bytes: allowed,
            limit,
        },
    })
}

/// Checks the head's peaks against a budget.
fn over_budget(workload: &Workload, budget: &Budget, most: u64, findings: &mut Vec<Finding>) {
    let level = budget.level.unwrap_or(workload.level);
    let peaks = workload.peaks.iter().filter(|((_, of), _)| *of == level);
    let mut is_measured = false;
    for ((device, _), peak) in peaks {
        is_measured = true;
        if *peak > most {
            findings.push(Finding::OverBudget {
                device: *device,
                level,
                peak_bytes: *peak,
                budget_bytes: most,
            });
        }
    }
    // Other levels have no row if nothing was allocated. Not every framework has tensors.
    let took_some = workload.peaks.keys().any(|(_, of)| *of == Level::DRIVER);
    let why = match level {
        _ if is_measured || !took_some => return,
        Level::TENSOR => "head: no tensors were recorded, so its budget is not checked",
        Level::PHYSICAL => "head: the card's memory was not measured, so its budget is not checked",
        _ => return,
    };
    findings.push(Finding::Unjudged { why: why.into() });
}
