//! Looks the names of places up: in the capture, in files, in a map for perf.

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

/// The evaluation function of every CPython; its cold part carries a suffix.
const EVALUATION: &str = "_PyEval_EvalFrameDefault";
/// What a part of it is called where no table of names has it.
const EVALUATION_PART: &str = "_PyEval_EvalFrameDefault.cold";
/// How CPython's own map for perf names the code through which it runs a Python function.
const TRAMPOLINE: &str = "py::";
/// Places are looked up so many at once.
pub(super) const BATCH: usize = 4096;

/// Looks functions up, each place once.
pub struct Symbols {
    search: Search,
    lookup: Lookup,
    perf_map: PerfMap,
    /// Files are asked before the capture.
    anew: bool,
    /// No file is asked.
    only_embedded: bool,
    known: FxHashMap<Spot, Place>,
    /// Every label once: there are far fewer than places.
    labels: FxHashSet<Rc<str>>,
    /// By module: the files that have its names, those that tell most first.
    files: FxHashMap<u32, Vec<Found>>,
    /// By module: the parts of the evaluation function that lie elsewhere in it, in link addresses.
    parts: FxHashMap<u32, Vec<Range<u64>>>,
    pub(super) work: Work,
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new(Places::default(), PerfMap::default())
    }
}

impl Symbols {
    /// Knows nothing yet; reads files only when asked for names in them.
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

    /// Reads no file: knows the names that are embedded in the capture alone.
    pub fn embedded() -> Self {
        Self {
            only_embedded: true,
            ..Self::default()
        }
    }

    /// Takes embedded names only where no file has one.
    pub fn anew(mut self, anew: bool) -> Self {
        self.anew = anew;
        self
    }

    /// Goes on to another capture: what was read of files stays, what was known of places goes.
    pub fn begin_capture(&mut self, perf_map: PerfMap) {
        self.perf_map = perf_map;
        self.known.clear();
        self.files.clear();
        self.parts.clear();
    }

    /// A handle that tells how far [`Symbols::find`] and baking have come.
    pub fn work(&self) -> Work {
        self.work.clone()
    }

    /// Finds the names of many frames, a whole module at a time. The recorder's own are left out: no
    /// view shows them.
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

    /// The functions at places of a module, the innermost first; none where nothing is known.
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

    /// Names places in a nameless part of the evaluation function, which stand for Python frames too.
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

    /// The parts of the evaluation function that lie elsewhere in a module; none if it does not lie in
    /// this one.
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
                let found = files.map(|file| parts::parts(&file.path, function.clone()));
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
        let search = &mut self.search;
        self.files.entry(index).or_insert_with(|| {
            let module = names.modules.get(index as usize);
            module.map_or_else(Vec::new, |module| search.files(module))
        })
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

    /// What a frame is called, and what is inlined into it there, the oldest first: `grow
    /// (grow.cpp:12)`, `push (list.h:7, inlined)`; `grow+0x1c` where only the exported name is known,
    /// `libfoo.so+0x1234` where no name is; `(JIT code)` for code in no module.
    pub fn labels(&mut self, names: &Names, frame: &NativeFrame) -> &[Rc<str>] {
        self.at(names, frame).map_or(&[], |place| &place.labels)
    }

    /// The same in parts, for formats that have a place for each.
    pub fn sources(&mut self, names: &Names, frame: &NativeFrame) -> &[Source] {
        self.at(names, frame).map_or(&[], |place| &place.sources)
    }

    /// Whether a frame is the interpreter's evaluation function, and so stands for Python frames.
    pub fn is_evaluation(&mut self, names: &Names, frame: &NativeFrame) -> bool {
        let (start, end) = names
            .interpreter
            .map_or((0, 0), |interpreter| interpreter.eval);
        let call = frame.call_address();
        if (start..end).contains(&call) {
            return true;
        }
        // A cold part lies elsewhere in the same module; other modules need no look-up.
        is_interpreter(names, frame) && self.has_role(names, frame, Role::Evaluation)
    }

    /// Whether a frame is code that the interpreter made to run one Python function through it, so
    /// that perf sees the function.
    pub fn is_trampoline(&mut self, names: &Names, frame: &NativeFrame) -> bool {
        frame.module.is_none() && self.has_role(names, frame, Role::Trampoline)
    }

    fn has_role(&mut self, names: &Names, frame: &NativeFrame, role: Role) -> bool {
        self.at(names, frame)
            .is_some_and(|place| place.role == role)
    }
}
