//! A sentence about the cause with its figures, and a sentence about the remedy.

use super::judge::{Found, Line};
use super::kind::CauseKind;
use crate::account::many;
use crate::units::{bytes, count, percent as part_of};

/// The cause and the remedy.
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
        (rounds, true) => format!("{} iterations of its loop", count(rounds)),
        (rounds, false) => format!("{} of its allocations", count(rounds)),
    };
    let grows = format!("{} more each time", bytes(found.per_round));
    let (what, advice): (String, String) = match found.kind {
        CauseKind::TooLarge => (
            format!("the request alone is larger than {}: {} of {}", card(found), bytes(found.asked), total(found)),
            "check the requested size, or use a larger card".into(),
        ),
        CauseKind::OtherProcesses => (
            format!(
                "other processes hold {size} of {} on this GPU, this process {}; without them, the request would fit",
                total(found),
                bytes(found.mine)
            ),
            "end them or use another GPU; nvidia-smi lists them".into(),
        ),
        CauseKind::NotMemory => (
            format!("the card is not full: {size} is free, but the driver refused the request"),
            "check the limits of the process: address space (ulimit -v), handles".into(),
        ),
        CauseKind::KeptGraphs => {
            let held = match &found.line {
                Some((line, _)) => format!(", probably kept by the tensor of {line} ({blocks})"),
                None => String::new(),
            };
            (
                format!("autograd graphs are kept: {size} ({percent}) in {rounds}, {grows}, mostly from {most}{held}"),
                match &found.line {
                    Some((line, _)) => format!("{line}: store .item() or .detach() of the tensor, not the tensor with its graph"),
                    None => "store .item() or .detach() of a result, not the tensor with its graph".into(),
                },
            )
        }
        CauseKind::NoGrad => {
            let held = match &found.line {
                Some((line, _)) => format!(", probably kept by the tensor of {line} ({blocks})"),
                None => String::new(),
            };
            (
                format!(
                    "autograd graphs that no backward uses are kept: {size} ({percent}) in {rounds}, {grows}, mostly from {most}{held}"
                ),
                "run this code under torch.no_grad(), as in an evaluation, or store .detach() of the results".into(),
            )
        }
        CauseKind::KeptTensors => (
            format!("{line} keeps one more tensor each time: {size} ({percent}) in {rounds}, {grows}"),
            "delete the tensors, or move them to the host with .cpu()".into(),
        ),
        CauseKind::Lengthened => (
            format!("the tensors of {line} grow each time: {size} ({percent}) after {rounds}, {grows}"),
            "limit the length of this cache; torch.cat needs the old and the new tensor at once".into(),
        ),
        CauseKind::OwnLimit => (
            "the framework's memory limit: the driver received no request".into(),
            "raise torch.cuda.set_per_process_memory_fraction, or request less".into(),
        ),
        CauseKind::Fragmentation => {
            let pieces = match found.pieces {
                Some((pieces, largest)) => {
                    format!(" in {} of at most {}", many(pieces, "block", "blocks"), bytes(largest))
                }
                None => String::new(),
            };
            (
                format!(
                    "fragmentation: {size} is free in PyTorch's cache{pieces}, {} on the card; as one block it would be enough",
                    bytes(found.free.unwrap_or(0))
                ),
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may let free blocks merge (gpumem whatif shows whether it does); allocate fewer different sizes".into(),
            )
        }
        CauseKind::Cached => (
            format!("{size} is reserved but unallocated in PyTorch's cache; this request needs memory outside of the cache"),
            "call torch.cuda.empty_cache() before it, or leave room with torch.cuda.set_per_process_memory_fraction(0.9)".into(),
        ),
        CauseKind::OptimizerState => (
            format!("optimizer state: {size} ({percent}) so far, mostly from {most}"),
            "use an optimizer with less state (SGD, 8-bit Adam), shard the state (ZeRO, FSDP), or train fewer parameters".into(),
        ),
        CauseKind::Workspaces => (
            format!(
                "cuBLAS workspaces, one for each handle and stream: {size} live in {blocks}, {} requested now",
                bytes(found.asked)
            ),
            "set CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8 or :16:8 for smaller ones, at some cost in speed".into(),
        ),
        CauseKind::Activations => (
            format!("activations of a forward: {size} ({percent}) in {blocks}, mostly from {most}; no line grows"),
            "use a smaller batch, if they grow with it, or torch.utils.checkpoint or torch.autocast".into(),
        ),
        CauseKind::Model => (
            format!("the model: {size} ({percent}) of parameters and buffers, mostly from {most}"),
            "use a smaller data type (bfloat16, 8 bits), or shard the model (FSDP)".into(),
        ),
        CauseKind::Largest => (
            format!("{line} holds most: {size} ({percent}) in {blocks}; no line grows"),
            "allocate less at this line, or free it earlier".into(),
        ),
        CauseKind::Host => (
            "the system refused more pinned memory".into(),
            "pin less (pin_memory=False), or raise ulimit -l".into(),
        ),
        CauseKind::Unknown => (
            "not known: the capture does not show what held the memory".into(),
            "run it again with GPUMEM_STACKS=mixed".into(),
        ),
    };
    (what + &in_pieces(found), advice)
}

/// A note on fragmented free memory, if it is not the cause but would have been enough.
fn in_pieces(found: &Found) -> String {
    let is_cause = matches!(
        found.kind,
        CauseKind::Fragmentation | CauseKind::NotMemory | CauseKind::OwnLimit | CauseKind::Cached
    );
    if is_cause || found.would_fit != Some(true) || found.cached == 0 {
        return String::new();
    }
    let free = found.cached.saturating_add(found.free.unwrap_or(0));
    format!("; another {} is free, but fragmented", bytes(free))
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

/// The percentage of live bytes.
fn percent(found: &Found) -> String {
    let of = part_of(found.bytes, found.live);
    format!("{of} of live memory")
}
