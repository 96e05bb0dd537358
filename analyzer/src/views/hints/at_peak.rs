//! Hints about tensors at a device's peak.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level, StackId};

use super::figures::{Figures, NUMBERED, functions, is_in_forward};
use super::frees::SHORT;
use super::hint::{Evidence, Hint, HintKind, NOTABLE, is_notable};
use super::watch::HintWatch;
use crate::account::many;
use crate::attribution::Owner;
use crate::names::Names;
use crate::replay::{Block, Category, Figure, Replay, StackKey};
use crate::views::by_stack::{ByStack, Owners};
use crate::views::ledger::Place;

/// Growing memory is judged by its size after this many more rounds.
const LATER: u64 = 1000;

/// The maximum number of lines as evidence.
const LINES: usize = 5;

/// Functions of torch.nn.functional that have an `inplace` argument and whose gradient in place needs only their
/// result, not their input (derivatives.yaml of PyTorch 2.15; selu is implemented with elu).
const IN_PLACE: [&str; 5] = ["celu", "elu", "leaky_relu", "relu", "selu"];

/// The input of an activation is the tensor of the same size that was allocated at most this many records before.
const NEAR: u64 = 4;

/// All hints for a device.
pub(super) fn hints(replay: &Replay, device: DeviceOrdinal, watch: &HintWatch) -> Vec<Hint> {
    let held = ByStack::at_device_peak(replay, device, Level::TENSOR);
    let held: Figures = held.devices.into_iter().flat_map(|on| on.figures).collect();
    let peak: u64 = held.iter().map(|(_, figure)| figure.bytes).sum();
    let names = &replay.names;
    let mut owners = Owners::new(replay, Level::TENSOR);
    let scale = replay.scale(device, Level::TENSOR, None);
    // For single blocks, if stacks are sampled.
    let scaled = |figures: Figures| -> Figures {
        let scaled = figures.into_iter();
        scaled
            .map(|(stacks, figure)| (stacks, scale.of(stacks, figure)))
            .collect()
    };
    // Memory that will have grown to `later` bytes counts with this size.
    let mut hint_of = |kind, what: &str, advice: &str, figures: Figures, later: u64| {
        let (bytes, lines) = summed(&figures, &mut owners);
        is_notable(bytes.max(later), peak, NOTABLE).then(|| Hint {
            kind,
            device: device.0,
            bytes,
            what: what.replace("{}", &crate::units::bytes(bytes)),
            advice: advice.into(),
            lines,
            holder: None,
        })
    };
    let mut hint =
        |kind, what: &str, advice: &str, figures| hint_of(kind, what, advice, figures, 0);
    let of = |wanted: &dyn Fn(StackKey) -> bool| -> Figures {
        let figures = held.iter().filter(|(stacks, _)| wanted(*stacks));
        figures.copied().collect()
    };
    let is_state = |stacks: StackKey| stacks.purpose.category() == Category::OptimizerState;
    let optimizer = hint(
        HintKind::OptimizerState,
        "{} at the peak is optimizer state, which stays live from step to step",
        "shard the state (ZeRO, FSDP), or use an 8-bit or a simpler optimizer",
        of(&is_state),
    );
    let in_place = hint(
        HintKind::NotInPlace,
        "{} at the peak are results of activation functions whose inputs were still live",
        "inplace=True (nn.ReLU(inplace=True), F.relu(x, inplace=True)) overwrites the input, where it is not needed afterwards",
        scaled(beside_their_inputs(replay, device)),
    );
    let workspaces = hint(
        HintKind::Workspaces,
        "{} at the peak are cuBLAS workspaces, one for each handle and stream",
        "set CUBLAS_WORKSPACE_CONFIG=:16:8 for small ones, at some cost in speed",
        of(&|stacks| stacks.purpose.is_workspace()),
    );
    let nodes = names.calls_of(NUMBERED);
    // A program that failed may have died before its first backward.
    let has_ended = replay.failures.count() == 0;
    let nodes = nodes.filter(|calls| *calls > 0 && !replay.spans.trains && has_ended);
    let no_grad = nodes.and_then(|nodes| {
        let what = format!(
            "autograd created {} for a backward that never ran; {{}} at the peak were allocated in forward",
            many(nodes, "node", "nodes")
        );
        hint(
            HintKind::NoGrad,
            &what,
            "run the forward under torch.inference_mode() or torch.no_grad(): each activation is then freed as soon as the next one exists",
            of(&|stacks| is_in_forward(names, stacks.py) && !stacks.purpose.is_no_grad()),
        )
    });
    let spikes = watch.frees.spikes(replay, device).and_then(|spikes| {
        let (least, most) = spikes.range;
        let what = format!(
            "{{}} at the peak were freed within {SHORT} events of their allocation; the largest such blocks of the same calls vary from {} to {} between steps",
            crate::units::bytes(least),
            crate::units::bytes(most)
        );
        hint(
            HintKind::Spikes,
            &what,
            "workspaces whose size depends on shapes: bucket or pad the batch sizes, and limit the largest; cuDNN's are also large while torch.backends.cudnn.benchmark tries algorithms for a new shape",
            scaled(spikes.figures),
        )
    });
    let unused = hint(
        HintKind::NoBackward,
        "{} that forward allocated were freed together without a backward: autograd's graph was built and not used",
        "run a validation, a rollout or a generator's forward under torch.no_grad(): each activation is then freed as soon as the next one exists",
        scaled(watch.frees.unused(replay, device)),
    );
    let mut grown = |graphs: bool| {
        let grown = watch.growing.of(replay, device, graphs)?;
        let (first, last) = grown.rounds;
        let (round, of_loop) = match &grown.of_loop {
            None => ("step", String::new()),
            Some(begins) => (
                "round",
                format!(" (rounds begin at {})", begins.label(names)),
            ),
        };
        let (kind, of, advice) = match graphs {
            true => (
                HintKind::KeptGraphs,
                ", allocated in forward",
                "a list or a sum of losses keeps their graphs: use loss.item() or loss.detach() to keep only the value",
            ),
            false => (
                HintKind::Growing,
                "",
                "something keeps memory of each step: gpumem-analyze leaks shows its age, line by line",
            ),
        };
        let probably = grown.holder.as_ref().map(|(line, figure)| {
            let blocks = many(figure.blocks, "block", "blocks");
            format!(
                "; probably kept by the tensor of {} ({blocks})",
                line.label(names)
            )
        });
        let what = format!(
            "{{}} more were live after {round} {} than after {round} {}{of_loop}{of}: {} more each {round}{}",
            crate::units::count(last),
            crate::units::count(first),
            grown.growth.text(),
            probably.unwrap_or_default()
        );
        let per_round = grown.growth.per_round.max(0).unsigned_abs();
        let later = per_round.saturating_mul(LATER);
        let advice = advice.replace("step", round);
        let mut hint = hint_of(kind, &what, &advice, scaled(grown.figures), later)?;
        hint.holder = grown.holder.map(|(owner, figure)| evidence(owner, figure));
        Some(hint)
    };
    let (graphs, growing) = (grown(true), grown(false));
    [
        optimizer, in_place, workspaces, no_grad, spikes, unused, graphs, growing,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Results of activation functions that are live at the peak together with their inputs: the tensors of the same size
/// allocated just before.
fn beside_their_inputs(replay: &Replay, device: DeviceOrdinal) -> Figures {
    let then = replay.at_peak_of(device);
    let row = then
        .as_ref()
        .and_then(|(then, _)| then.levels.get(&(device, Level::TENSOR)));
    let mut blocks: Vec<Block> = row
        .into_iter()
        .flat_map(|row| row.live_blocks().map(|(_, block)| block))
        .collect();
    blocks.sort_unstable_by_key(|block| block.seq);
    let is_input =
        |block: &Block, of: &Block| block.bytes == of.bytes && of.seq.0 - block.seq.0 <= NEAR;
    let mut figures = Figures::new();
    for (at, block) in blocks.iter().enumerate() {
        let stacks = replay.stacks(block.key);
        let before = blocks.get(at.saturating_sub(NEAR as usize)..at);
        if is_activation(&replay.names, stacks.py)
            && before.is_some_and(|before| before.iter().any(|input| is_input(input, block)))
        {
            let (bytes, blocks) = (block.bytes, 1);
            figures.push((stacks, Figure { bytes, blocks }));
        }
    }
    figures
}

fn evidence(owner: Owner, figure: Figure) -> Evidence {
    Evidence {
        place: Place::of(Some(&owner)),
        bytes: figure.bytes,
        blocks: figure.blocks,
        owner,
    }
}

/// Bytes of the stacks, and the lines with most of them.
fn summed(figures: &[(StackKey, Figure)], owners: &mut Owners<'_>) -> (u64, Vec<Evidence>) {
    let mut by_owner: BTreeMap<Owner, Figure> = BTreeMap::new();
    for (stacks, figure) in figures {
        *by_owner.entry(owners.of(*stacks)).or_default() += *figure;
    }
    let sum = by_owner.values().map(|figure| figure.bytes).sum();
    let mut lines: Vec<Evidence> = by_owner
        .into_iter()
        .map(|(owner, figure)| evidence(owner, figure))
        .collect();
    lines.sort_by_key(|line| Reverse((line.bytes, line.blocks)));
    lines.truncate(LINES);
    (sum, lines)
}

/// Whether the newest Python function is an activation that supports working in place.
fn is_activation(names: &Names, stack: StackId) -> bool {
    let newest = functions(names, stack).next();
    newest.is_some_and(|(file, name)| {
        file.ends_with("torch/nn/functional.py") && IN_PLACE.contains(&name)
    })
}
