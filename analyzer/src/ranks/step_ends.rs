//! The ends of a rank's steps.

/// The maximum number of steps that are kept of a run. Of longer runs, only every second, fourth, … step is kept.
const MOST: usize = 64;

/// Steps by number, with the end of each in nanoseconds since 1970, by the clock of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEnds {
    stride: u64,
    ends: Vec<(u64, u64)>,
}

impl Default for StepEnds {
    fn default() -> Self {
        Self {
            stride: 1,
            ends: Vec::new(),
        }
    }
}

impl StepEnds {
    /// A step ends.
    pub fn end_step(&mut self, step: u64, at_unix_ns: u64) {
        if !step.is_multiple_of(self.stride) {
            return;
        }
        self.ends.push((step, at_unix_ns));
        if self.ends.len() > MOST {
            self.stride *= 2;
            let stride = self.stride;
            self.ends.retain(|(step, _)| step.is_multiple_of(stride));
        }
    }

    /// The kept steps.
    pub fn all(&self) -> &[(u64, u64)] {
        &self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_keep_few_steps_and_all_ranks_the_same() {
        let ends = |steps: u64| {
            let mut ends = StepEnds::default();
            (1..=steps).for_each(|step| ends.end_step(step, step * 10));
            ends
        };
        let (short, long) = (ends(40), ends(10_000));
        assert_eq!(short.all().len(), 40);
        assert!((MOST / 2..=MOST).contains(&long.all().len()));
        assert_eq!(long.all().first(), Some(&(256, 2560)));
        let shared = ends(200);
        let both = shared
            .all()
            .iter()
            .filter(|(step, _)| step.is_multiple_of(4));
        assert_eq!(both.count(), shared.all().len());
    }
}
