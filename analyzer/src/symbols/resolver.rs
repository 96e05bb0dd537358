//! Looks up the names of places in the capture, in files, and in perf's map.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use gpumem_capture::{Function, ModuleId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::lookup::Lookup;
use super::parts;
use super::perf_map::PerfMap;
use super::place::{
    MADE_AT_RUN_TIME, Place, Role, Source, Spot, is_interpreter, is_recorder, label, spot,
};
use super::readable::readable;
use super::search::{Found, Places, Search};
use super::work::Work;
use crate::names::{Names, NativeFrame};

/// The evaluation function of all versions of CPython; its cold part has a suffix.
const EVALUATION: &str = "_PyEval_EvalFrameDefault";
/// The label of a part of it that has no name in a table.
const EVALUATION_PART: &str = "_PyEval_EvalFrameDefault.cold";
/// The prefix in CPython's own map for perf for code that runs a Python function.
const TRAMPOLINE: &str = "py::";
/// How many places are looked up at once. Each look-up reads a file's whole table of names.
pub(super) const BATCH: usize = 1 << 16;
/// For how many modules files are open at once.
const OPEN_LIMIT: usize = 256;

/// Looks up functions, each place once.
pub struct Symbols {
    search: Search,
    lookup: Lookup,
    perf_map: PerfMap,
    /// Whether files precede the names in the capture.
    anew: bool,
    /// Whether no files are used.
    only_embedded: bool,
    known: FxHashMap<Spot, Place>,
    /// One copy of each label: there are far fewer labels than places.
    labels: FxHashSet<Rc<str>>,
    /// By a module's path and build id: the files with its names, the most informative first.
    files: FxHashMap<(String, Vec<u8>), Vec<Found>>,
    /// By module: the separate parts of the evaluation function, in link addresses.
    parts: FxHashMap<u32, Vec<Range<u64>>>,
    pub(super) work: Work,
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new(Places::default(), PerfMap::default())
    }
}

impl Symbols {
    /// Without known names. Files are read only when names in them are needed.
    pub fn new(places: Places, perf_map: PerfMap) -> Self {
        Self {
            search: Search::new(places),
            lookup: Lookup::new(),
            perf_map,
            anew: false,
            only_embedded: false,
            known: FxHashMap::default(),
            labels: FxHashSet::default(),
            files: FxHashMap::default(),
            parts: FxHashMap::default(),
            work: Work::default(),
        }
    }

    /// Uses only the names embedded in the capture and reads no files.
    pub fn embedded() -> Self {
        Self {
            only_embedded: true,
            ..Self::default()
        }
    }

    /// Uses embedded names only for places without a name in files.
    pub fn anew(mut self, anew: bool) -> Self {
        self.anew = anew;
        self
    }

    /// Begins another capture. Data from files is kept; names of places are dropped.
    pub fn begin_capture(&mut self, perf_map: PerfMap) {
        self.perf_map = perf_map;
        self.known.clear();
        self.parts.clear();
    }

    /// A handle for the progress of [`Symbols::find`] and of embedding names.
    pub fn work(&self) -> Work {
        self.work.clone()
    }

    /// Finds the names of many frames, module by module. The recorder's frames are skipped, because no view shows
    /// them.
    pub fn find<'a>(&mut self, names: &Names, frames: impl IntoIterator<Item = &'a NativeFrame>) {
        let mut wanted: BTreeMap<Option<u32>, FxHashSet<u64>> = BTreeMap::new();
        let shown = frames
            .into_iter()
            .filter(|frame| !is_recorder(names, frame));
        for spot in shown.map(|frame| spot(names, frame)) {
            if !self.known.contains_key(&spot) {
                wanted.entry(spot.0).or_default().insert(spot.1);
            }
        }
        self.work.add(wanted.values().map(FxHashSet::len).sum());
        for (module, addresses) in wanted {
            let mut addresses: Vec<u64> = addresses.into_iter().collect();
            addresses.sort_unstable();
            for batch in addresses.chunks(BATCH) {
                let functions = self.functions(names, module, batch);
                for (address, functions) in batch.iter().zip(functions) {
                    let place = self.place(names, (module, *address), &functions);
                    self.known.insert((module, *address), place);
                }
                self.work.finish(batch.len());
            }
        }
    }

    /// The functions at places of a module, the innermost first; none if they are unknown.
    pub(super) fn functions(
        &mut self,
        names: &Names,
        module: Option<u32>,
        addresses: &[u64],
    ) -> Vec<Vec<Function>> {
        let id = module
            .and_then(|index| names.modules.get(index as usize))
            .map_or(ModuleId(0), |module| module.id);
        let embedded = |address: &u64| names.symbols.get(&(id, *address)).cloned();
        let mut found: Vec<Vec<Function>> = addresses
            .iter()
            .map(|address| embedded(address).filter(|_| !self.anew).unwrap_or_default())
            .collect();
        let files = match module {
            Some(index) => self.files(names, index).to_vec(),
            None => {
                for (address, found) in addresses.iter().zip(&mut found) {
                    if let (true, Some(name)) = (found.is_empty(), self.perf_map.name(*address)) {
                        found.push(Function {
                            name: name.to_owned(),
                            ..Function::default()
                        });
                    }
                }
                Vec::new()
            }
        };
        for file in files {
            let open = (0..found.len()).filter(|at| found[*at].is_empty());
            let open: Vec<usize> = open.collect();
            if open.is_empty() {
                break;
            }
            let wanted: Vec<u64> = open.iter().map(|at| addresses[*at]).collect();
            for (at, functions) in open.into_iter().zip(self.lookup.functions(&file, &wanted)) {
                found[at] = functions;
            }
        }
        for (address, found) in addresses.iter().zip(&mut found) {
            if found.is_empty() {
                *found = embedded(address).unwrap_or_default();
            }
        }
        if let Some(index) = module {
            self.name_parts(names, index, addresses, &mut found);
        }
        found
    }

    /// Names places in a nameless part of the evaluation function, which also represent Python frames.
    fn name_parts(
        &mut self,
        names: &Names,
        index: u32,
        addresses: &[u64],
        found: &mut [Vec<Function>],
    ) {
        for (address, found) in addresses.iter().zip(found) {
            let is_known = |function: &Function| function.name.starts_with(EVALUATION);
            if !found.last().is_some_and(is_known)
                && self
                    .evaluation_parts(names, index)
                    .iter()
                    .any(|part| part.contains(address))
            {
                *found = vec![Function {
                    name: EVALUATION_PART.to_owned(),
                    ..Function::default()
                }];
            }
        }
    }

    /// The separate parts of the evaluation function in a module; none if the module does not contain this function.
    fn evaluation_parts(&mut self, names: &Names, index: u32) -> &[Range<u64>] {
        if !self.parts.contains_key(&index) {
            let (start, end) = names
                .interpreter
                .map_or((0, 0), |interpreter| interpreter.eval);
            let module = names.modules.get(index as usize);
            let module = module.filter(|module| (module.start..module.end).contains(&start));
            let parts = module.map_or_else(Vec::new, |module| {
                let function = start.wrapping_sub(module.bias)..end.wrapping_sub(module.bias);
                let files = self.files(names, index).iter();
                let found = files.map(|file| parts::parts(&file.elf.file, function.clone()));
                found
                    .into_iter()
                    .find(|parts| !parts.is_empty())
                    .unwrap_or_default()
            });
            self.parts.insert(index, parts);
        }
        self.parts.get(&index).map_or(&[], |parts| parts)
    }

    /// The files that have names of a module.
    pub(super) fn files(&mut self, names: &Names, index: u32) -> &[Found] {
        if self.only_embedded {
            return &[];
        }
        let Some(module) = names.modules.get(index as usize) else {
            return &[];
        };
        let is_of = (module.path.clone(), module.build_id.clone());
        if self.files.len() >= OPEN_LIMIT && !self.files.contains_key(&is_of) {
            self.files.clear();
        }
        let search = &mut self.search;
        let files = self.files.entry(is_of);
        files.or_insert_with(|| search.files(module))
    }

    fn place(&mut self, names: &Names, (module, address): Spot, functions: &[Function]) -> Place {
        let module = module.and_then(|index| names.modules.get(index as usize));
        let function = functions.last().map_or("", |function| &function.name);
        let role = if module.is_none() && function.starts_with(TRAMPOLINE) {
            Role::Trampoline
        } else if module.is_some() && function.starts_with(EVALUATION) {
            Role::Evaluation
        } else {
            Role::Other
        };
        let mut labels: Vec<Rc<str>> = functions
            .iter()
            .enumerate()
            .map(|(depth, function)| {
                let is_inlined = depth + 1 < functions.len();
                self.label(label(function, is_inlined, module.is_none()))
            })
            .rev()
            .collect();
        if labels.is_empty() {
            labels.push(self.label(match module {
                Some(module) => format!("{}+{address:#x}", module.basename()),
                None => MADE_AT_RUN_TIME.to_owned(),
            }));
        }
        let mut sources: Vec<Source> = functions
            .iter()
            .map(|function| {
                let name = match module {
                    Some(_) => readable(&function.name),
                    None => label(function, false, true),
                };
                Source {
                    name: self.label(name),
                    file: self.label(function.file.clone()),
                    line: function.line,
                }
            })
            .rev()
            .collect();
        if let ([], [only]) = (&sources[..], &labels[..]) {
            sources.push(Source {
                name: Rc::clone(only),
                file: "".into(),
                line: 0,
            });
        }
        let (labels, sources) = (labels.into(), sources.into());
        Place {
            labels,
            sources,
            role,
        }
    }

    fn label(&mut self, label: String) -> Rc<str> {
        if let Some(known) = self.labels.get(label.as_str()) {
            return Rc::clone(known);
        }
        let label: Rc<str> = label.into();
        self.labels.insert(Rc::clone(&label));
        label
    }

    fn at(&mut self, names: &Names, frame: &NativeFrame) -> Option<&Place> {
        let spot = spot(names, frame);
        if !self.known.contains_key(&spot) {
            let functions = self.functions(names, spot.0, &[spot.1]).pop();
            let place = self.place(names, spot, &functions.unwrap_or_default());
            self.known.insert(spot, place);
        }
        self.known.get(&spot)
    }

    /// The label of a frame and those of the functions inlined into it, the oldest first: `grow (grow.cpp:12)`, `push
    /// (list.h:7, inlined)`. `grow+0x1c` if only the exported name is known, `libfoo.so+0x1234` without a name, `(JIT
    /// code)` for code in no module.
    pub fn labels(&mut self, names: &Names, frame: &NativeFrame) -> &[Rc<str>] {
        self.at(names, frame).map_or(&[], |place| &place.labels)
    }

    /// The same as separate fields, for formats that have these.
    pub fn sources(&mut self, names: &Names, frame: &NativeFrame) -> &[Source] {
        self.at(names, frame).map_or(&[], |place| &place.sources)
    }

    /// Whether a frame is the interpreter's evaluation function, and so represents Python frames.
    pub fn is_evaluation(&mut self, names: &Names, frame: &NativeFrame) -> bool {
        let (start, end) = names
            .interpreter
            .map_or((0, 0), |interpreter| interpreter.eval);
        let call = frame.call_address();
        if (start..end).contains(&call) {
            return true;
        }
        // A cold part is in the same module, so other modules need no lookup.
        is_interpreter(names, frame) && self.has_role(names, frame, Role::Evaluation)
    }

    /// Whether a frame is code that the interpreter generated to run one Python function, so that the function is
    /// visible to perf.
    pub fn is_trampoline(&mut self, names: &Names, frame: &NativeFrame) -> bool {
        frame.module.is_none() && self.has_role(names, frame, Role::Trampoline)
    }

    fn has_role(&mut self, names: &Names, frame: &NativeFrame, role: Role) -> bool {
        self.at(names, frame)
            .is_some_and(|place| place.role == role)
    }
}
