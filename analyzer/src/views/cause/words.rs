//! A cause in a sentence with its figures, and what to change in another one.

use super::judge::{Found, Line};
use super::kind::CauseKind;
use crate::account::many;
use crate::units::{bytes, count, percent as part_of};

/// What the cause is, and what to change.
pub(super) fn of(found: &Found) -> (String, String) {
    let at = |line: &Option<Line>| match line {
        Some((line, _)) => line.clone(),
        None => "(no line)".to_owned(),
    };
    let (most, line) = (at(&found.most), at(&found.line));
    let size = bytes(found.bytes);
    let blocks = many(found.blocks, "block", "blocks");
    let percent = percent(found);
    let rounds = match found.rounds {
        (rounds, true) => format!("{} rounds of its loop", count(rounds)),
        (rounds, false) => format!("{} allocations of it", count(rounds)),
    };
    let grows = format!("{} more each time", bytes(found.per_round));
    let (what, advice): (String, String) = match found.kind {
        CauseKind::TooLarge => (
            format!("the request alone is larger than {}: {} of {}", card(found), bytes(found.asked), total(found)),
            "ask for less, if one of its sizes is wrong; or use a larger card".into(),
        ),
        CauseKind::OtherProcesses => (
            format!(
                "other processes hold {size} of {} of this GPU, this one {}; without them it would have fitted",
                total(found),
                bytes(found.mine)
            ),
            "end them or use another GPU: nvidia-smi names them".into(),
        ),
        CauseKind::NotMemory => (
            format!("not the card's memory: {size} is free there, and the driver refused all the same"),
            "look at limits of the process: address space (ulimit -v), handles".into(),
        ),
        CauseKind::KeptGraphs => {
            let held = match &found.line {
                Some((line, _)) => format!(", probably held by the tensor of {line} ({blocks})"),
                None => String::new(),
            };
            (
                format!("graphs are kept: {size} ({percent}) in {rounds}, {grows}, most of it of {most}{held}"),
                match &found.line {
                    Some((line, _)) => format!("{line}: keep .item() or .detach() of it, not the tensor with its graph"),
                    None => "keep .item() or .detach() of a result, not the tensor with its graph".into(),
                },
            )
        }
        CauseKind::NoGrad => {
            let held = match &found.line {
                Some((line, _)) => format!(", probably held by the tensor of {line} ({blocks})"),
                None => String::new(),
            };
            (
                format!(
                    "graphs are kept that no backward uses: {size} ({percent}) in {rounds}, {grows}, most of it of {most}{held}"
                ),
                "run this part under torch.no_grad(), as in an evaluation; or keep .detach() of the results".into(),
            )
        }
        CauseKind::KeptTensors => (
            format!("{line} keeps one more tensor each time: {size} ({percent}) in {rounds}, {grows}"),
            "drop them, or keep them on the host: .cpu()".into(),
        ),
        CauseKind::Lengthened => (
            format!("the tensors of {line} become longer each time: {size} ({percent}) after {rounds}, {grows}"),
            "bound the length of this cache; torch.cat needs the old tensor and the new one at once".into(),
        ),
        CauseKind::OwnLimit => (
            "a limit of the framework's own: the driver was not asked".into(),
            "raise torch.cuda.set_per_process_memory_fraction, or ask for less".into(),
        ),
        CauseKind::Fragmentation => {
            let pieces = match found.pieces {
                Some((pieces, largest)) => {
                    format!(" in {} of at most {}", many(pieces, "piece", "pieces"), bytes(largest))
                }
                None => String::new(),
            };
            (
                format!(
                    "fragmentation: {size} is free in PyTorch's cache{pieces}, {} on the card; in one piece it would have been enough",
                    bytes(found.free.unwrap_or(0))
                ),
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins free pieces; fewer different sizes help".into(),
            )
        }
        CauseKind::Cached => (
            format!("PyTorch's cache holds {size} that no tensor uses; what was asked for is taken outside of it"),
            "torch.cuda.empty_cache() before it, or torch.cuda.set_per_process_memory_fraction(0.9), which leaves room".into(),
        ),
        CauseKind::OptimizerState => (
            format!("the optimizer's state: {size} ({percent}) so far, most of it of {most}"),
            "an optimizer with less state (SGD, 8-bit Adam), sharded state (ZeRO, FSDP), or fewer parameters".into(),
        ),
        CauseKind::Workspaces => (
            format!(
                "workspaces of cuBLAS, one for each handle and stream: {size} live in {blocks}, {} asked for now",
                bytes(found.asked)
            ),
            "CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8 or :16:8 makes them smaller, at some cost in speed".into(),
        ),
        CauseKind::Activations => (
            format!("the activations of a forward: {size} ({percent}) in {blocks}, most of them of {most}; nothing grows"),
            "a smaller batch, if its size is theirs; else torch.utils.checkpoint or torch.autocast".into(),
        ),
        CauseKind::Model => (
            format!("the model: {size} ({percent}) of parameters and buffers, most of them of {most}"),
            "a smaller data type (bfloat16, 8 bits), or a model that is sharded (FSDP)".into(),
        ),
        CauseKind::Largest => (
            format!("{line} holds most: {size} ({percent}) in {blocks}; nothing grows"),
            "free or shrink what this line makes".into(),
        ),
        CauseKind::Host => (
            "the system gave no more pinned memory".into(),
            "pin less (pin_memory=False), or raise ulimit -l".into(),
        ),
        CauseKind::Unknown => (
            "not known: the capture does not say who held the memory".into(),
            "run it again with GPUMEM_STACKS=both".into(),
        ),
    };
    (what + &in_pieces(found), advice)
}

/// What is free in pieces, where that is not the cause but would have done.
fn in_pieces(found: &Found) -> String {
    let is_cause = matches!(
        found.kind,
        CauseKind::Fragmentation | CauseKind::NotMemory | CauseKind::OwnLimit | CauseKind::Cached
    );
    if is_cause || found.would_fit != Some(true) || found.cached == 0 {
        return String::new();
    }
    let free = found.cached.saturating_add(found.free.unwrap_or(0));
    format!("; {} is free besides, in pieces", bytes(free))
}

fn card(found: &Found) -> &'static str {
    match found.is_limited {
        true => "the limit (GPUMEM_LIMIT)",
        false => "the card",
    }
}

fn total(found: &Found) -> String {
    found.total.map_or("an unknown size".into(), bytes)
}

/// The part of what is live.
fn percent(found: &Found) -> String {
    let of = part_of(found.bytes, found.live);
    format!("{of} of what is live")
}
