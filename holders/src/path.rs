//! The path from a root to an object.

use crate::contents::Contents;
use crate::frames::{Codes, Frames};
use crate::heap::{Heap, Id};
use crate::object::{Class, Object, bases, class_name, full_name, is_a, is_attributes_of, kind};
use crate::python::Locked;
use crate::roots::What;
use crate::search::{From, Search};
use crate::text::{Part, Waiting};

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// The number of its root.
    pub(crate) root: usize,
    /// From the root to the object; the first one and the last ones of a long path.
    pub(crate) objects: Vec<Id>,
    pub(crate) parts: Vec<Part>,
}

/// The longest path; of a longer one the first object and the last ones are shown.
const LONGEST: usize = 64;
const LAST: usize = 4;

/// Writes paths.
pub(crate) struct Paths<'a> {
    locked: &'a Locked<'a>,
    heap: &'a Heap,
    frames: &'a Frames,
    search: &'a Search,
    codes: Codes,
    contents: Contents<'a>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(
        locked: &'a Locked<'a>,
        heap: &'a Heap,
        search: &'a Search,
        (frames, codes): (&'a Frames, Codes),
    ) -> Self {
        Self {
            locked,
            heap,
            frames,
            search,
            codes,
            contents: Contents::new(locked, heap),
        }
    }

    /// The path to an object; None if it was not reached.
    pub(crate) fn path(&mut self, object: Id) -> Option<Path> {
        let (root, beginning) = self.search.beginning(object)?;
        let mut objects = vec![object];
        let mut is_whole = true;
        while let From::Object(from) = self.search.from(*objects.last()?) {
            if objects.len() == LONGEST {
                is_whole = false;
                break;
            }
            objects.push(from);
        }
        objects.reverse();
        let mut parts = vec![self.first(root, *beginning.first()?)];
        let mut begin = 1;
        if !is_whole {
            begin = objects.len() - LAST;
            if let [namespace, name] = *beginning {
                let [namespace, name] = [namespace, name].map(|id| self.heap.object(id));
                parts.push(self.of_namespace(namespace, name));
            }
            parts.push(Part::Gap);
        }
        for at in begin..objects.len() {
            let address = |at: usize| objects.get(at).map_or(0, |id| self.heap.object(*id));
            let (parent, child) = (address(at - 1), address(at));
            let above = at.checked_sub(2).map_or(0, address);
            let part = match at {
                1 if self.is_namespace(root) => self.of_namespace(parent, child),
                _ => self.part(above, parent, child),
            };
            parts.push(part);
        }
        if !is_whole {
            objects.splice(..begin, beginning);
        }
        Some(Path {
            root,
            objects,
            parts,
        })
    }

    /// What an element of a list is called in it; None for another container.
    pub(crate) fn element(&mut self, list: Id, element: Id) -> Option<Part> {
        let (list, element) = (self.heap.object(list), self.heap.object(element));
        is_a(kind(list), Class::List).then(|| self.contents.in_list(list, element))?
    }

    /// The numbers of places that the frames of a live code object have: of its variables, and of those for the evaluation.
    pub(crate) fn places(&mut self, code: Object) -> [usize; 2] {
        let code = self.codes.get(self.locked, code);
        [code.variables.len(), code.evaluation]
    }

    fn is_namespace(&self, root: usize) -> bool {
        let root = self.search.roots.get(root);
        root.is_some_and(|root| root.what.is_namespace())
    }

    /// A namespace is a module's dictionary, or an object that is used as a module.
    fn of_namespace(&mut self, namespace: Object, child: Object) -> Part {
        if !is_a(kind(namespace), Class::Dict) {
            return self.part(0, namespace, child);
        }
        let part = self.contents.in_dict(namespace, true, child);
        part.unwrap_or(Part::Element)
    }

    /// What stands first.
    fn first(&mut self, root: usize, object: Id) -> Part {
        match self.search.roots.get(root).map(|root| &root.what) {
            Some(What::Local(frame, variable)) => {
                let frame = self.frames.all.get(*frame);
                let code = frame.map(|frame| self.codes.get(self.locked, frame.locals.code));
                let name = code.and_then(|code| code.variables.get(*variable));
                Part::Name(name.cloned().unwrap_or_default())
            }
            Some(What::Module(_) | What::Body(_)) | None => Part::Silent,
            Some(What::Handled | What::Native(_) | What::Cycle) => {
                Part::Name(class_name(kind(self.heap.object(object))))
            }
        }
    }

    /// Where the root is: `local of main (train.py:31)`.
    pub(crate) fn place(&mut self, root: usize) -> String {
        match self.search.roots.get(root).map(|root| &root.what) {
            Some(What::Local(frame, _) | What::Body(frame)) => {
                let frame = self.frames.all.get(*frame);
                let place = frame.map(|frame| self.codes.place(self.locked, &frame.locals));
                format!("local of {}", place.unwrap_or_default())
            }
            Some(What::Module(name)) => format!("global of {name}"),
            Some(What::Handled) => String::from("exception that is being handled"),
            Some(What::Native(None)) => String::from("native code or a running call"),
            Some(What::Native(Some(frame))) => {
                let frame = self.frames.all.get(*frame);
                let place = frame.map(|frame| self.codes.place(self.locked, &frame.locals));
                // Its place may also have an old address.
                format!("native code or {}", place.unwrap_or_default())
            }
            Some(What::Cycle) => String::from("reference cycle"),
            None => String::new(),
        }
    }

    /// How `parent`, to which `above` refers, refers to `child`.
    fn part(&mut self, above: Object, parent: Object, child: Object) -> Part {
        let python = &self.locked.python;
        let class = kind(parent);
        match class {
            _ if class == python.PyFunction_Type => return self.of_function(parent, child),
            _ if class == python.PyCell_Type || class == python.PyTraceBack_Type => {
                return Part::Silent;
            }
            _ if class == python.PyFrame_Type => {
                // SAFETY: a live frame object, with the lock.
                let locals = unsafe { self.locked.runtime.locals_of(parent) };
                return match (self.variable(locals, child), self.generator(above)) {
                    (None, _) => Part::Silent,
                    (Some((place, None)), None) => Part::Arrow(place),
                    (Some((place, Some(name))), None) => Part::Arrow(format!("{place} {name}")),
                    (Some(of), Some(word)) => waiting(word, of),
                };
            }
            _ => {}
        }
        if let Some(word) = self.generator(parent) {
            // SAFETY: a live object of one of these classes, with the lock.
            let locals = unsafe { self.locked.runtime.locals_of_generator(parent) };
            return match self.variable(locals, child) {
                Some(of) => waiting(word, of),
                // Up to 3.10 it refers to its frame, which names it.
                None if kind(child) == python.PyFrame_Type => Part::Silent,
                None => Part::Arrow(String::from(word)),
            };
        }
        if is_attributes_of(child, parent) {
            return Part::Silent;
        }
        if let Some(part) = self.of_cache(above, parent, child) {
            return part;
        }
        let part = self
            .in_container(above, parent, child)
            .or_else(|| self.contents.attribute(parent, child));
        match part {
            Some(Part::Name(name)) => {
                let is_separate = is_attributes_of(parent, above);
                let object = if is_separate { above } else { parent };
                self.contents.named(object, name)
            }
            Some(part) => part,
            None => self.of_other(parent, child),
        }
    }

    /// How a cached function, or the dictionary or an entry of its cache, refers to a result or an argument.
    fn of_cache(&mut self, above: Object, parent: Object, child: Object) -> Option<Part> {
        let is_function = |object| full_name(kind(object)) == "functools._lru_cache_wrapper";
        let is_entry = |object| class_name(kind(object)) == "_lru_list_elem";
        let function = match is_a(kind(parent), Class::Dict) || is_entry(parent) {
            true => above,
            false => parent,
        };
        let dict =
            (function != 0 && is_function(function)).then(|| self.contents.cache(function))?;
        let is_part = parent == function || parent == dict || is_entry(parent);
        if dict == 0 || !is_part || kind(child) == self.locked.python.PyFunction_Type {
            return None;
        }
        let count = self.contents.length(dict);
        Some(match () {
            _ if child == dict || is_entry(child) => Part::Silent,
            _ if self.contents.is_key(dict, child) => Part::Argument(count),
            _ => Part::Result(count),
        })
    }

    /// The word for a generator.
    fn generator(&self, object: Object) -> Option<&'static str> {
        let python = &self.locked.python;
        let class = kind(object);
        match () {
            _ if class == python.PyGen_Type => Some("generator"),
            _ if class == python.PyCoro_Type => Some("coroutine"),
            _ if class == python.PyAsyncGen_Type => Some("asynchronous generator"),
            _ => None,
        }
    }

    fn in_container(&mut self, above: Object, parent: Object, child: Object) -> Option<Part> {
        let class = kind(parent);
        if is_a(class, Class::List) || is_a(class, Class::Tuple) {
            match kind(above) == self.locked.python.PyFunction_Type {
                true => self.of_functions_tuple(above, parent, child),
                false => self.contents.in_list(parent, child),
            }
        } else if is_a(class, Class::Dict) {
            let has_attributes = is_attributes_of(parent, above);
            self.contents.in_dict(parent, has_attributes, child)
        } else {
            None
        }
    }

    /// How an object of another class refers to `child`.
    fn of_other(&self, parent: Object, child: Object) -> Part {
        let python = &self.locked.python;
        let class = kind(parent);
        let of = kind(child);
        let is_set = |class| class == python.PySet_Type || class == python.PyFrozenSet_Type;
        let name = class_name(class);
        Part::Arrow(match name.as_str() {
            _ if is_a(class, Class::Dict) || bases(class).any(is_set) => return Part::Element,
            "deque" if !is_a(of, Class::Dict) => return Part::Element,
            "Task" | "Future" if self.contents.is_result(parent, child) => {
                return Part::Name(String::from("result()"));
            }
            "Task" if of == python.PyCoro_Type => return Part::Silent,
            "_tee_dataobject" => return Part::Silent,
            "_tee" => String::from("itertools.tee"),
            "builtin_function_or_method" => return Part::Name(String::from("__self__")),
            _ if is_a(class, Class::Type) || is_a(of, Class::Dict) => return Part::Silent,
            _ if is_a(class, Class::Exception) => match () {
                _ if of == python.PyTraceBack_Type => String::from("traceback"),
                _ if is_a(of, Class::Exception) => class_name(of),
                _ => return Part::Name(String::from("args")),
            },
            _ => name,
        })
    }

    fn of_function(&self, function: Object, child: Object) -> Part {
        let python = &self.locked.python;
        if is_attributes_of(child, function) {
            return Part::Silent;
        }
        let name = self.locked.function_name(function);
        // SAFETY: a live function, with the lock; borrowed.
        let [closure, defaults, keywords] = unsafe {
            [
                (python.PyFunction_GetClosure)(function),
                (python.PyFunction_GetDefaults)(function),
                (python.PyFunction_GetKwDefaults)(function),
            ]
        };
        Part::Arrow(match child {
            _ if child == closure => format!("closure of {name}"),
            _ if child == defaults || child == keywords => format!("default arguments of {name}"),
            _ => format!("function {name}"),
        })
    }

    /// What `child` is called in the closure of a function, or among the defaults of its arguments.
    fn of_functions_tuple(
        &mut self,
        function: Object,
        tuple: Object,
        child: Object,
    ) -> Option<Part> {
        let python = &self.locked.python;
        let Some(Part::Index(place)) = self.contents.in_list(tuple, child) else {
            return None;
        };
        let place = usize::try_from(place).ok()?;
        // SAFETY: a live function and its code, with the lock; borrowed.
        let (code, length, is_closure) = unsafe {
            (
                (python.PyFunction_GetCode)(function),
                (python.PyTuple_Size)(tuple) as usize,
                (python.PyFunction_GetClosure)(function) == tuple,
            )
        };
        let names = self.codes.get(self.locked, code);
        let at = match is_closure {
            // The last variables are those of closures.
            true => names.variables.len() + place,
            // The last arguments have defaults.
            false => names.arguments + place,
        };
        let name = at.checked_sub(length);
        Some(match name.and_then(|at| names.variables.get(at)) {
            Some(name) => Part::Arrow(name.clone()),
            None => Part::Index(place as i64),
        })
    }

    /// A frame and its variable that refers to `child`: `main (train.py:31)` and `out`; the frame alone without such a
    /// variable.
    fn variable(
        &mut self,
        locals: Option<gpumem_python_frames::Locals>,
        child: Object,
    ) -> Option<(String, Option<String>)> {
        let locals = locals?;
        if kind(child) == self.locked.python.PyFrame_Type {
            return None;
        }
        // The frames of packages between a call of the program and the failure are not named.
        if !self.codes.get(self.locked, locals.code).is_own {
            return None;
        }
        let place = self.codes.place(self.locked, &locals);
        let variables = &self.codes.get(self.locked, locals.code).variables;
        let refers = |at: &usize| {
            // SAFETY: the frame is live, with the lock, and has these variables.
            let value = unsafe { locals.get(*at) };
            value.is_some_and(|value| value.object == child)
        };
        let name = (0..variables.len()).find(refers);
        Some((place, name.and_then(|at| variables.get(at).cloned())))
    }
}

fn waiting(word: &'static str, (place, variable): (String, Option<String>)) -> Part {
    Part::Waiting(Waiting {
        word,
        place,
        variable,
    })
}
