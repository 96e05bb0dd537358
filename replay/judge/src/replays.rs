//! What replays of the run under other settings of the framework's allocator gave.

/// The run, replayed under settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The settings, in the form of `PYTORCH_CUDA_ALLOC_CONF`.
    pub settings: String,
    /// Whether all requests succeeded, also those that failed in the run.
    pub fits: bool,
    /// The most reserved bytes.
    pub reserved: u64,
}

/// Replays of one device's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replays {
    /// Whether the figures are those of a rerun.
    pub is_exact: bool,
    /// The run under the recorded settings.
    pub recorded: Setting,
    /// The run under other settings.
    pub others: Vec<Setting>,
}

impl Replays {
    /// The settings under which the run fits with least memory. `None` if it fits under none, or also under those that
    /// were recorded: then the replay does not have the failure.
    pub fn remedy(&self) -> Option<&Setting> {
        let fit = self.others.iter().filter(|of| of.fits);
        fit.min_by_key(|of| of.reserved)
            .filter(|_| self.shows_the_failure())
    }

    /// Whether the run fails under the recorded settings, too.
    pub fn shows_the_failure(&self) -> bool {
        !self.recorded.fits
    }

    /// The settings under which a run that fits reserves least, if that is less than under the recorded ones.
    pub fn leaner(&self) -> Option<&Setting> {
        let fit = self.others.iter().filter(|of| of.fits);
        fit.min_by_key(|of| of.reserved)
            .filter(|of| self.recorded.fits && of.reserved < self.recorded.reserved)
    }
}

impl Setting {
    /// The settings as an assignment for a shell.
    pub fn assignment(&self) -> String {
        let special = |of: char| !of.is_ascii_alphanumeric() && !"_:,.-".contains(of);
        match self.settings.contains(special) {
            true => format!(
                "PYTORCH_CUDA_ALLOC_CONF='{}'",
                self.settings.replace('\'', "")
            ),
            false => format!("PYTORCH_CUDA_ALLOC_CONF={}", self.settings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(settings: &str, fits: bool, reserved: u64) -> Setting {
        Setting {
            settings: settings.into(),
            fits,
            reserved,
        }
    }

    fn replays(recorded: bool) -> Replays {
        Replays {
            is_exact: true,
            recorded: setting("", recorded, 9),
            others: vec![
                setting("a", true, 8),
                setting("b", true, 7),
                setting("c", false, 6),
            ],
        }
    }

    #[test]
    fn a_remedy_is_what_fits_where_the_run_fails() {
        let fails = replays(false);
        assert_eq!(fails.remedy().map(|of| &*of.settings), Some("b"));
        assert_eq!(fails.leaner(), None);
        let fits = replays(true);
        assert_eq!(fits.remedy(), None, "the replay does not have the failure");
        assert_eq!(fits.leaner().map(|of| &*of.settings), Some("b"));
    }

    #[test]
    fn brackets_are_quoted() {
        let plain = setting("expandable_segments:True,max_split_size_mb:64", true, 1);
        assert_eq!(
            plain.assignment(),
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64"
        );
        let list = setting("roundup_power2_divisions:[256:1,>:8]", true, 1);
        assert!(
            list.assignment()
                .ends_with("='roundup_power2_divisions:[256:1,>:8]'")
        );
    }
}
