use blazesym::inspect::{self, Inspector};
use gpumem_capture::{Function, ModuleId};

use super::place::label;
use super::*;
use crate::names::{Module, Names, NativeFrame};

/// A process that loaded this test at 1 MiB, with this build id and these embedded names, and a frame that returns
/// into its `main`.
fn loaded(build_id: Vec<u8>) -> (Names, NativeFrame, u64) {
    let path = std::env::current_exe().expect("path of the test");
    let path = path.to_str().expect("plain path").to_owned();
    let mut elf = inspect::source::Elf::new(&path);
    // The program's, and no function with this name in a module.
    elf.debug_syms = false;
    let source = inspect::source::Source::Elf(elf);
    let main = Inspector::new()
        .lookup(&source, &["main"])
        .expect("look-up")[0][0]
        .addr;
    let mut names = Names::default();
    names.modules.push(Module {
        id: ModuleId(7),
        bias: 0x10_0000,
        start: 0x10_0000,
        end: u64::MAX,
        path,
        build_id,
    });
    let frame = NativeFrame {
        address: 0x10_0000 + main + 2,
        module: Some(0),
    };
    (names, frame, main + 1)
}

fn own_build_id() -> Vec<u8> {
    let path = std::env::current_exe().expect("path of the test");
    elf::open(&path).expect("an ELF file").build_id
}

fn labels(symbols: &mut Symbols, names: &Names, frame: &NativeFrame) -> Vec<String> {
    let labels = symbols.labels(names, frame).iter();
    labels.map(|label| label.to_string()).collect()
}

fn function(name: &str, file: &str, line: u32) -> Function {
    Function {
        name: name.into(),
        file: file.into(),
        line,
    }
}

/// This test is a file with symbols. Its own function must be found by its build id, and must not be found with
/// another one.
#[test]
fn a_function_is_found_in_the_build_that_ran_and_in_no_other() {
    let (names, frame, at) = loaded(own_build_id());
    let own = labels(&mut Symbols::default(), &names, &frame);
    assert!(own[0] == "main" || own[0].starts_with("main ("), "{own:?}");
    let mut other = own_build_id();
    other[0] ^= 1;
    for build_id in [other, vec![1, 2, 3], Vec::new()] {
        let (names, frame, _) = loaded(build_id);
        let elsewhere = format!("{}+{at:#x}", names.modules[0].basename());
        assert_eq!(
            labels(&mut Symbols::default(), &names, &frame),
            [elsewhere.as_str()]
        );
        let mut symbols = Symbols::default();
        symbols.find(&names, [&frame]);
        assert_eq!(labels(&mut symbols, &names, &frame), [elsewhere.as_str()]);
        assert_eq!((symbols.work().done(), symbols.work().total()), (1, 1));
    }
}

/// What is at its path later is not read.
#[test]
fn a_library_without_debug_information_is_opened_once() {
    let (mut names, frame, _) = loaded(own_build_id());
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("app");
    let mut strip = std::process::Command::new("strip");
    strip
        .args(["-g", "-o"])
        .args([copy.as_os_str(), names.modules[0].path.as_ref()]);
    assert!(strip.status().expect("strip of binutils").success());
    names.modules[0].path = copy.to_str().expect("plain path").to_owned();
    let mut symbols = Symbols::default();
    assert_eq!(symbols.files(&names, 0).len(), 1);
    std::fs::remove_file(&copy).expect("removed");
    assert_eq!(labels(&mut symbols, &names, &frame), ["main"]);
    symbols.begin_capture(PerfMap::default());
    assert_eq!(
        labels(&mut symbols, &names, &frame),
        ["main"],
        "of another capture"
    );
}

#[test]
fn embedded_names_are_preferred_unless_all_is_asked_for_anew() {
    let (mut names, frame, at) = loaded(own_build_id());
    let embedded = vec![
        function("inner(int)", "/src/list.h", 7),
        function("outer<int>(int)", "", 0),
    ];
    names.symbols.insert((ModuleId(7), at), embedded.clone());
    let expected = ["outer<int>", "inner (list.h:7, inlined)"];
    assert_eq!(labels(&mut Symbols::default(), &names, &frame), expected);
    let anew = labels(&mut Symbols::default().anew(true), &names, &frame);
    assert!(anew[0].starts_with("main"), "{anew:?}");
    // If no file is found, embedded names are kept.
    names.modules[0].build_id = vec![1];
    assert_eq!(
        labels(&mut Symbols::default().anew(true), &names, &frame),
        expected
    );
    // Another load of the same file has separate places.
    names.modules[0].id = ModuleId(8);
    assert_ne!(labels(&mut Symbols::default(), &names, &frame), expected);
}

#[test]
fn code_in_no_module_is_made_at_run_time() {
    let frame = |address| NativeFrame {
        address,
        module: None,
    };
    let mut map = PerfMap::default();
    map.read(&b"1000 100 numba_add\n2000 100 py::train:/home/me/train.py\n"[..]);
    let mut symbols = Symbols::new(Places::default(), map);
    let mut names = Names::default();
    assert_eq!(
        labels(&mut symbols, &names, &frame(0x1001)),
        ["numba_add (JIT code)"]
    );
    assert_eq!(
        labels(&mut symbols, &names, &frame(0x1101)),
        ["(JIT code)"],
        "past its end"
    );
    assert!(symbols.is_trampoline(&names, &frame(0x2040)));
    assert!(!symbols.is_trampoline(&names, &frame(0x1001)));
    names
        .symbols
        .insert((ModuleId(0), 0x3000), vec![function("kernel", "", 0)]);
    assert_eq!(
        labels(&mut symbols, &names, &frame(0x3001)),
        ["kernel (JIT code)"]
    );
}

#[test]
fn a_label_says_where_and_whether_it_is_inlined() {
    for (function, is_inlined, expected) in [
        (function("f(int)", "", 0), false, "f"),
        (function("f(int)", "", 0), true, "f (inlined)"),
        (function("f", "/a/b.c", 0), false, "f (b.c)"),
        (function("f", "/a/b.c", 3), false, "f (b.c:3)"),
        (function("f", "b.c", 3), true, "f (b.c:3, inlined)"),
        (function("f(int)+0x1c", "", 0), false, "f+0x1c"),
    ] {
        assert_eq!(label(&function, is_inlined, false), expected);
    }
}

#[test]
fn what_is_embedded_names_every_place_and_says_which_it_cannot() {
    let (mut names, frame, at) = loaded(own_build_id());
    names.modules.push(Module {
        id: ModuleId(9),
        path: "/gone/libgone.so".into(),
        build_id: vec![0xab; 2],
        ..names.modules[0].clone()
    });
    let gone = NativeFrame {
        address: 0x10_1234,
        module: Some(1),
    };
    let made = NativeFrame {
        address: 0x99,
        module: None,
    };
    let stack = (vec![frame, gone, made, frame], false);
    names
        .native_stacks
        .insert(gpumem_capture::StackId(1), stack);
    let spots = Spots::of(&names);
    assert_eq!((spots.count(), spots.modules()), (3, 2));
    let (mut symbols, mut nameless) = (Symbols::default(), Vec::new());
    let embedded: Vec<_> = spots.symbols(&names, &mut symbols, &mut nameless).collect();
    let [
        gpumem_capture::Definition::Symbol {
            module,
            address,
            functions,
        },
    ] = &embedded[..]
    else {
        panic!("{embedded:?}");
    };
    assert_eq!((module, *address), (&ModuleId(7), at));
    assert_eq!(functions.last().map(|last| &last.name[..]), Some("main"));
    let said: Vec<_> = nameless
        .iter()
        .map(|nameless| (nameless.module.as_deref(), nameless.places))
        .collect();
    assert_eq!(said, [(None, 1), (Some("libgone.so"), 1)]);
    assert!(nameless[1].why.ends_with("abab"), "{}", nameless[1].why);
    assert_eq!((symbols.work().done(), symbols.work().total()), (3, 3));
}
