//! Snapshots of PyTorch's allocator, as pickles.

use gpumem_analyzer::pickle::PickleWriter;

type To<'a> = PickleWriter<&'a mut Vec<u8>>;

/// A frame: file, function, line.
pub type At = (&'static str, &'static str, u64);

pub const TRAIN: At = ("/home/me/run/train.py", "<module>", 20);
pub const FORWARD: At = ("/home/me/run/net.py", "forward", 7);
pub const CONV: At = (
    "/env/lib/python3.12/site-packages/torch/nn/conv.py",
    "forward",
    560,
);
pub const ALLOCATES: At = ("/env/torch/lib/libc10_cuda.so", "??", 0x100);
pub const EMPTY: At = ("/env/torch/lib/libtorch_cpu.so", "at::empty(long)", 0x2000);
pub const TAKES: At = (
    "/env/torch/lib/libtorch_cpu.so",
    "torch::CapturedTraceback::gather(bool)",
    0x30,
);
pub const RECORDS: At = ("/env/torch/lib/libtorch_cuda.so", "??", 0x40);
pub const EVALUATES: At = (
    "/usr/lib/libpython3.12.so.1.0",
    "_PyEval_EvalFrameDefault",
    0x50,
);
pub const SOURCE: At = ("/pytorch/aten/Empty.cpp", "at::native::empty()", 99);

/// An entry of a trace: action, address, bytes, time, frames.
pub type Entry<'a> = (&'a str, u64, u64, u64, &'a [At]);

/// A segment: address, bytes, whether it is expandable, its blocks (rounded bytes, requested bytes, state, frames).
pub type Segment<'a> = (u64, u64, bool, &'a [(u64, u64, &'a str, &'a [At])]);

pub fn frames(to: &mut To<'_>, frames: &[At]) {
    let mut list = to.begin_list().expect("memory");
    for (file, name, line) in frames {
        to.item(&mut list).expect("memory");
        to.begin_dict().expect("memory");
        to.word("filename").expect("memory");
        to.text(file).expect("memory");
        to.word("name").expect("memory");
        to.text(name).expect("memory");
        number(to, "line", *line);
        to.end_dict().expect("memory");
    }
    to.end_list(list).expect("memory");
}

pub fn number(to: &mut To<'_>, key: &'static str, value: u64) {
    to.word(key).expect("memory");
    to.int(value).expect("memory");
}

pub fn text(to: &mut To<'_>, key: &'static str, value: &str) {
    to.word(key).expect("memory");
    to.text(value).expect("memory");
}

fn segments(to: &mut To<'_>, segments: &[Segment<'_>]) {
    let mut list = to.begin_list().expect("memory");
    for (address, bytes, expandable, blocks) in segments {
        to.item(&mut list).expect("memory");
        to.begin_dict().expect("memory");
        number(to, "device", 0);
        number(to, "address", *address);
        number(to, "total_size", *bytes);
        to.word("is_expandable").expect("memory");
        to.bool(*expandable).expect("memory");
        to.word("segment_pool_id").expect("memory");
        to.pair(0, 0).expect("memory");
        to.word("blocks").expect("memory");
        let mut of = to.begin_list().expect("memory");
        for (size, asked, state, stack) in *blocks {
            to.item(&mut of).expect("memory");
            to.begin_dict().expect("memory");
            number(to, "size", *size);
            number(to, "requested_size", *asked);
            text(to, "state", state);
            to.word("frames").expect("memory");
            frames(to, stack);
            to.end_dict().expect("memory");
        }
        to.end_list(of).expect("memory");
        to.end_dict().expect("memory");
    }
    to.end_list(list).expect("memory");
}

/// The pickle of a snapshot with one device.
pub fn snapshot(of: &[Segment<'_>], trace: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PickleWriter::new(&mut bytes).expect("memory");
    let to = &mut writer;
    to.begin_dict().expect("memory");
    to.word("segments").expect("memory");
    segments(to, of);
    to.word("device_traces").expect("memory");
    let mut devices = to.begin_list().expect("memory");
    to.item(&mut devices).expect("memory");
    let mut list = to.begin_list().expect("memory");
    for (action, address, bytes, time, stack) in trace {
        to.item(&mut list).expect("memory");
        to.begin_dict().expect("memory");
        text(to, "action", action);
        if *action == "oom" {
            number(to, "device_free", *address);
        } else {
            number(to, "addr", *address);
        }
        number(to, "size", *bytes);
        number(to, "stream", 0);
        number(to, "time_us", 1_700_000_000_000_000 + time);
        to.word("frames").expect("memory");
        frames(to, stack);
        to.end_dict().expect("memory");
    }
    to.end_list(list).expect("memory");
    to.end_list(devices).expect("memory");
    to.end_dict().expect("memory");
    writer.finish().expect("memory");
    bytes
}
