//! A path from a root to an object, as Python would write it.

use gpumem_python_frames::Runtime;
use rustc_hash::FxHashMap;

use crate::heap::{Heap, Id};
use crate::python::{Class, Locked, Object, class_name, is_a, kind};
use crate::roots::{self, Roots, What};
use crate::search::{From, Search};

/// A part of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `.name`
    Name(String),
    /// `['name']`
    Key(String),
    /// `[3]`
    Index(i64),
    /// An element without a number.
    Element,
    /// ` → text`
    Arrow(String),
    /// Not worth a word.
    Silent,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// The number of its root.
    pub(crate) root: usize,
    /// From the root to the object: `objects[n]` is reached by `parts[n]`.
    pub(crate) objects: Vec<Id>,
    pub(crate) parts: Vec<Part>,
}

/// The longest path.
const LONGEST: usize = 64;
/// The maximum number of entries of a dictionary whose keys are printed.
const FEW: isize = 16;

/// Writes paths.
pub(crate) struct Paths<'a> {
    pub(crate) locked: &'a Locked,
    pub(crate) runtime: &'a Runtime,
    pub(crate) heap: &'a Heap,
    pub(crate) roots: &'a Roots,
    pub(crate) search: &'a Search,
    /// What the objects in a container are called.
    contents: FxHashMap<Object, FxHashMap<Object, Part>>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(
        locked: &'a Locked,
        runtime: &'a Runtime,
        (heap, roots, search): (&'a Heap, &'a Roots, &'a Search),
    ) -> Self {
        Self {
            locked,
            runtime,
            heap,
            roots,
            search,
            contents: FxHashMap::default(),
        }
    }

    /// The path to an object; None if it was not reached, or is too deep.
    pub(crate) fn path(&mut self, object: Id) -> Option<Path> {
        let mut objects = vec![object];
        let root = loop {
            match self.search.from(*objects.last()?) {
                From::Nowhere => return None,
                From::Root(root) => break root,
                From::Object(from) if objects.len() < LONGEST => objects.push(from),
                From::Object(_) => return None,
            }
        };
        objects.reverse();
        let mut parts = vec![self.first(root, *objects.first()?)];
        for at in 1..objects.len() {
            let address = |at: usize| objects.get(at).map_or(0, |id| self.heap.object(*id));
            let (parent, child) = (address(at - 1), address(at));
            let above = at.checked_sub(2).map_or(0, address);
            let is_namespace = at == 1 && self.is_namespace(root);
            let part = self.part(above, parent, child, is_namespace);
            parts.push(part);
        }
        Some(Path {
            root,
            objects,
            parts,
        })
    }

    fn is_namespace(&self, root: usize) -> bool {
        let root = self.search.roots.get(root);
        root.is_some_and(|root| matches!(root.what, What::Module(_)))
    }

    /// What stands first.
    fn first(&self, root: usize, object: Id) -> Part {
        match self.search.roots.get(root).map(|root| &root.what) {
            Some(What::Local(_, name)) => Part::Name(name.clone()),
            Some(What::Module(_)) | None => Part::Silent,
            Some(What::Handled | What::Native | What::Cycle) => {
                Part::Name(class_name(kind(self.heap.object(object))))
            }
        }
    }

    /// Where the root is: `a local of main (train.py:31)`.
    pub(crate) fn place(&self, root: usize) -> String {
        match self.search.roots.get(root).map(|root| &root.what) {
            Some(What::Local(frame, _)) => {
                let frame = self.roots.frames.get(*frame);
                format!("local of {}", frame.map_or("a frame", String::as_str))
            }
            Some(What::Module(name)) => format!("global of {name}"),
            Some(What::Handled) => String::from("exception that is being handled"),
            Some(What::Native) => String::from("native code or a running call"),
            Some(What::Cycle) => String::from("reference cycle"),
            None => String::new(),
        }
    }

    /// How `parent`, to which `above` refers, refers to `child`.
    fn part(&mut self, above: Object, parent: Object, child: Object, is_namespace: bool) -> Part {
        let python = &self.locked.python;
        let class = kind(parent);
        if class == python.PyFunction_Type {
            return self.of_function(parent, child);
        }
        if class == python.PyCell_Type || class == python.PyTraceBack_Type {
            return Part::Silent;
        }
        if class == python.PyMethod_Type {
            return Part::Arrow(String::from("bound method"));
        }
        if class == python.PyFrame_Type {
            return self.of_frame(parent, child);
        }
        let generators = [
            (python.PyGen_Type, c"gi_frame", "generator"),
            (python.PyCoro_Type, c"cr_frame", "coroutine"),
            (python.PyAsyncGen_Type, c"ag_frame", "generator"),
        ];
        for (of, attribute, word) in generators {
            if class == of {
                let Some(frame) = self.locked.attribute(parent, attribute) else {
                    return Part::Arrow(String::from(word));
                };
                let part = match kind(frame) == python.PyFrame_Type {
                    true => self.of_frame(frame, child),
                    false => Part::Silent,
                };
                self.locked.release(frame);
                return match part {
                    Part::Arrow(text) => Part::Arrow(format!("{word} {text}")),
                    _ => Part::Arrow(String::from(word)),
                };
            }
        }
        // SAFETY: a live function, with the lock; borrowed.
        let is_closure = kind(above) == python.PyFunction_Type
            && unsafe { (python.PyFunction_GetClosure)(above) } == parent;
        let known = self.contents.entry(parent).or_insert_with(|| {
            if is_a(class, Class::Dict) {
                // What a function, a list and the like have is a plain dictionary; that of other objects has their
                // attributes.
                let has_attributes = is_namespace || above != 0 && !is_container(above);
                entries(self.locked, parent, has_attributes)
            } else if is_a(class, Class::List) || is_a(class, Class::Tuple) {
                let names = match is_closure {
                    true => free_names(self.locked, above),
                    false => Vec::new(),
                };
                elements(self.locked, parent, &names)
            } else {
                attributes(self.locked, parent)
            }
        });
        if let Some(part) = known.get(&child) {
            return part.clone();
        }
        if is_a(class, Class::Dict) || is_a(class, Class::Set) {
            return Part::Element;
        }
        if is_a(kind(child), Class::Dict) && !is_container(parent) {
            return Part::Silent;
        }
        if let Some(name) = self.locked.slot_name(parent, child) {
            return Part::Name(name);
        }
        let name = class_name(class);
        match () {
            _ if name == "deque" => Part::Element,
            _ if is_a(class, Class::Exception) && kind(child) == python.PyTraceBack_Type => {
                Part::Arrow(String::from("traceback"))
            }
            _ if is_a(class, Class::Exception) && is_a(kind(child), Class::Exception) => {
                Part::Arrow(class_name(kind(child)))
            }
            _ if is_a(class, Class::Type) => Part::Silent,
            _ => Part::Arrow(name),
        }
    }

    fn of_function(&self, function: Object, child: Object) -> Part {
        let name = self.function_name(function);
        // SAFETY: a live function, with the lock; borrowed.
        let closure = unsafe { (self.locked.python.PyFunction_GetClosure)(function) };
        Part::Arrow(match child {
            _ if child == closure => format!("closure of {name}"),
            _ if is_a(kind(child), Class::Tuple) => format!("default arguments of {name}"),
            _ => format!("function {name}"),
        })
    }

    fn function_name(&self, function: Object) -> String {
        let name = self.locked.attribute(function, c"__qualname__");
        let text = name.and_then(|name| {
            let text = self.locked.text(name);
            self.locked.release(name);
            text
        });
        text.unwrap_or_default().replace("<locals>.", "")
    }

    fn of_frame(&self, frame: Object, child: Object) -> Part {
        // SAFETY: a live frame object, with the lock.
        let Some(locals) = (unsafe { self.runtime.locals_of(frame) }) else {
            return Part::Silent;
        };
        if kind(child) == self.locked.python.PyFrame_Type {
            return Part::Silent;
        }
        let names = roots::variables(self.locked, self.runtime, locals.code);
        // The frames of packages between a call of the program and the failure are not named.
        if !roots::is_of_program(self.locked, &locals) {
            return Part::Silent;
        }
        let text = roots::frame_text(self.locked, &locals);
        for (at, name) in names.into_iter().enumerate() {
            // SAFETY: as above; the frame has these variables.
            if unsafe { locals.get(at) } == Some(child) {
                return Part::Arrow(format!("{text} {name}"));
            }
        }
        Part::Arrow(text)
    }
}

/// Whether an object contains others, rather than having them as attributes.
fn is_container(object: Object) -> bool {
    let class = kind(object);
    let containers = [Class::Dict, Class::List, Class::Tuple, Class::Set];
    containers.into_iter().any(|of| is_a(class, of))
}

/// What a dictionary contains.
fn entries(locked: &Locked, dict: Object, has_attributes: bool) -> FxHashMap<Object, Part> {
    let mut parts = FxHashMap::default();
    // SAFETY: a live dictionary, with the lock.
    let few = unsafe { (locked.python.PyDict_Size)(dict) } <= FEW;
    locked.entries(dict, |key, value| {
        let class = kind(key);
        let part = if class == locked.python.PyUnicode_Type {
            match locked.text(key) {
                Some(name) if has_attributes => Part::Name(name),
                Some(name) if few => Part::Key(name),
                _ => Part::Element,
            }
        } else if class == locked.python.PyLong_Type {
            // SAFETY: an integer, with the lock; larger ones set an exception.
            let number = unsafe {
                let number = (locked.python.PyLong_AsLongLong)(key);
                (locked.python.PyErr_Clear)();
                number
            };
            Part::Index(number)
        } else {
            Part::Element
        };
        parts.entry(value).or_insert(part);
        true
    });
    parts
}

/// What a list or a tuple contains; `names` are the names of the first elements.
fn elements(locked: &Locked, list: Object, names: &[String]) -> FxHashMap<Object, Part> {
    let python = &locked.python;
    let (size, get) = match is_a(kind(list), Class::List) {
        true => (python.PyList_Size, python.PyList_GetItem),
        false => (python.PyTuple_Size, python.PyTuple_GetItem),
    };
    let mut parts = FxHashMap::default();
    // SAFETY: a live list or tuple, with the lock.
    let length = unsafe { size(list) };
    for at in 0..length {
        // SAFETY: as above; borrowed.
        let object = unsafe { get(list, at) };
        let name = names.get(at as usize);
        let part = name.map_or(Part::Index(at as i64), |name| Part::Arrow(name.clone()));
        parts.entry(object).or_insert(part);
    }
    parts
}

/// The attributes that an object has without a dictionary.
fn attributes(locked: &Locked, object: Object) -> FxHashMap<Object, Part> {
    match locked.attributes(object) {
        Some(dict) => {
            let parts = entries(locked, dict, true);
            locked.release(dict);
            parts
        }
        None => FxHashMap::default(),
    }
}

/// The names of what a function's closure has.
fn free_names(locked: &Locked, function: Object) -> Vec<String> {
    // SAFETY: a live function, with the lock; borrowed.
    let code = unsafe { (locked.python.PyFunction_GetCode)(function) };
    let Some(tuple) = locked.attribute(code, c"co_freevars") else {
        return Vec::new();
    };
    // SAFETY: a tuple of strings.
    let length = unsafe { (locked.python.PyTuple_Size)(tuple) };
    let names = (0..length)
        // SAFETY: as above; borrowed.
        .map(|at| unsafe { (locked.python.PyTuple_GetItem)(tuple, at) })
        .map(|name| locked.text(name).unwrap_or_default())
        .collect();
    locked.release(tuple);
    names
}

/// The text of parts; an index is a mark, its number goes to `numbers`.
pub(crate) fn text(parts: &[Part], numbers: &mut Vec<i64>) -> String {
    let mut text = String::new();
    for part in shortened(parts) {
        match part {
            Part::Name(name) if text.is_empty() => text += &name,
            Part::Name(name) => text += &format!(".{name}"),
            Part::Key(name) => text += &format!("['{name}']"),
            Part::Index(number) => {
                text.push('[');
                text.push(MARK);
                text.push(']');
                numbers.push(number);
            }
            Part::Element => text += "[…]",
            Part::Arrow(words) if text.is_empty() => text += &words,
            Part::Arrow(words) => text += &format!(" → {words}"),
            Part::Silent => continue,
        }
    }
    text.chars().take(LONGEST_TEXT).collect()
}

/// The longest text, in characters.
const LONGEST_TEXT: usize = 240;
/// Stands for a number in a text.
pub(crate) const MARK: char = '\u{1}';

/// PyTorch's modules keep theirs in dictionaries: `._modules['0']._parameters['weight']` is `[0].weight`.
fn shortened(parts: &[Part]) -> Vec<Part> {
    let mut shown = Vec::with_capacity(parts.len());
    let mut parts = parts.iter().peekable();
    while let Some(part) = parts.next() {
        match (part, parts.peek()) {
            (Part::Name(name), Some(Part::Key(_) | Part::Element)) if is_of_module(name) => {
                match parts.next() {
                    Some(Part::Key(key)) => shown.push(match key.parse() {
                        Ok(number) => Part::Index(number),
                        Err(_) => Part::Name(key.clone()),
                    }),
                    _ => shown.push(Part::Element),
                }
            }
            _ => shown.push(part.clone()),
        }
    }
    shown
}

/// Whether an attribute is one of those in which PyTorch's modules keep what they have.
pub(crate) fn is_of_module(name: &str) -> bool {
    matches!(name, "_modules" | "_parameters" | "_buffers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[Part]) -> (String, Vec<i64>) {
        let mut numbers = Vec::new();
        let text = text(parts, &mut numbers);
        (text, numbers)
    }

    #[test]
    fn a_path_reads_as_python() {
        let name = |text: &str| Part::Name(text.to_owned());
        let key = |text: &str| Part::Key(text.to_owned());
        let arrow = |text: &str| Part::Arrow(text.to_owned());
        for (parts, text, numbers) in [
            (
                vec![name("metric"), Part::Silent, name("preds"), Part::Index(7)],
                "metric.preds[\u{1}]",
                vec![7],
            ),
            (
                vec![
                    name("model"),
                    name("_modules"),
                    key("0"),
                    name("_parameters"),
                    key("weight"),
                ],
                "model[\u{1}].weight",
                vec![0],
            ),
            (
                vec![name("e"), arrow("traceback"), arrow("step (x.py:3) out")],
                "e → traceback → step (x.py:3) out",
                vec![],
            ),
            (
                vec![Part::Silent, name("cache"), key("a"), Part::Element],
                "cache['a'][…]",
                vec![],
            ),
        ] {
            assert_eq!(shown(&parts), (text.to_owned(), numbers));
        }
    }
}
