//! Durations of calls of CUDA's memory functions, as the recorder wrote them at exit.

use gpumem_capture::ProcessKey;

use super::Names;

/// Calls of one function with one outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// Their number.
    pub calls: u64,
    /// Their total, in nanoseconds.
    pub total_ns: u64,
    /// The longest one, in nanoseconds.
    pub greatest_ns: u64,
    /// The powers of two that have calls: the exponent n, and the calls of at least 2^n ns and less than twice that.
    /// The first possible exponent, 9, also has shorter calls; the last one, 32, longer ones.
    pub histogram: Vec<(u32, u64)>,
}

/// The outcome of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// They succeeded.
    Succeeded,
    /// They failed.
    Failed,
    /// They succeeded, and made or first used a context, loaded code, or freed nothing.
    SetUp,
}

impl CallOutcome {
    fn key(self) -> &'static str {
        match self {
            Self::Succeeded => ProcessKey::CALL_TIMES,
            Self::Failed => ProcessKey::FAILED_CALL_TIMES,
            Self::SetUp => ProcessKey::SET_UP_CALL_TIMES,
        }
    }
}

impl CallTimes {
    /// The mean duration of a call in nanoseconds, rounded down.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.calls).unwrap_or(0)
    }

    /// Parses the value of a fact; `None` if it is malformed.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let [calls, total_ns, greatest_ns] = [number()?, number()?, number()?];
        let pair = |word: &str| {
            let (exponent, calls) = word.split_once(':')?;
            Some((exponent.parse().ok()?, calls.parse().ok()?))
        };
        let histogram = words.map(pair).collect::<Option<Vec<(u32, u64)>>>()?;
        let sum = |sum: u64, (_, calls): &(u32, u64)| sum.checked_add(*calls);
        let is_whole = histogram.iter().try_fold(0, sum) == Some(calls) && calls > 0;
        is_whole.then_some(Self {
            calls,
            total_ns,
            greatest_ns,
            histogram,
        })
    }
}

impl Names {
    /// Durations of a function's calls; `None` if the capture has none.
    pub fn call_times(&self, function: &str, outcome: CallOutcome) -> Option<CallTimes> {
        let key = format!("{}{function}", outcome.key());
        CallTimes::parse(self.process.get(&key)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_read_whole_or_not_at_all() {
        let times = CallTimes::parse("4 74000 70000 9:1 10:2 16:1").unwrap();
        assert_eq!((times.calls, times.mean_ns()), (4, 18_500));
        assert_eq!(times.histogram, [(9, 1), (10, 2), (16, 1)]);
        for text in [
            "",
            "0 0 0",
            "4 74000",
            "4 74000 70000",
            "4 74000 70000 9:1 10:2",
            "4 74000 70000 9:1 10:2 16",
            "1 x 1 9:1",
            "1 1 1 9:18446744073709551615 10:2",
        ] {
            assert_eq!(CallTimes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn outcomes_have_keys_of_their_own() {
        let mut names = Names::default();
        let mut fact = |key: &str, value: &str| names.process.insert(key.into(), value.into());
        fact("call_times.cudaMalloc", "1 1000 1000 9:1");
        fact("failed_call_times.cudaMalloc", "1 2000 2000 10:1");
        let total = |outcome| Some(names.call_times("cudaMalloc", outcome)?.total_ns);
        assert_eq!(total(CallOutcome::Succeeded), Some(1000));
        assert_eq!(total(CallOutcome::Failed), Some(2000));
        assert_eq!(total(CallOutcome::SetUp), None);
        assert_eq!(names.calls().count(), 0);
    }
}
