//! Options for the rows of a capture.

/// What is taken from a capture, and how names are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The run's name. Default: the job's name, or one made of host, start and process number.
    pub run: Option<String>,
    /// The version of the code. Default: a hash of it.
    pub version: Option<String>,
    /// Rows of the table `labels`: names and values. Default: none.
    pub labels: Vec<(String, String)>,
    /// Whether lines have their text. Default: yes.
    pub source_text: bool,
    /// Whether hashes stand for names of files, functions, modules, programs and machines. Default: no.
    pub hash_paths: bool,
    /// The secret for hashes of names and keys. Without it, names cannot be found by trying. Default: none.
    pub secret: Option<Vec<u8>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            run: None,
            version: None,
            labels: Vec::new(),
            source_text: true,
            hash_paths: false,
            secret: None,
        }
    }
}
