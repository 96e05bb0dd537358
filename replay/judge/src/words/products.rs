//! Requests that are as large as the rows of one variable with the rows of another: distances, similarities, a vector
//! that was broadcast by mistake.

use super::Text;
use crate::holders::{Holder, HolderKind};

/// The step of sizes of PyTorch's blocks.
const STEP: u64 = 512;
/// The sizes of an element, in bytes.
const ELEMENTS: [u128; 3] = [2, 4, 8];
/// The least odd factor of the request: sizes that are powers of two, or nearly, fit by chance.
const ODD: u64 = 225;
/// The accuracy that a number of columns must have: one part of so many.
const ACCURACY: u128 = 50;

impl Text<'_> {
    /// What to do about such a request.
    pub(super) fn advice_of_product(&self) -> Option<String> {
        let all = self.facts.holders.iter().flat_map(|holders| &holders.all);
        let is_variable =
            |of: &&Holder| of.kind == HolderKind::Object && of.is_variable() && of.blocks == 1;
        let mine: Vec<&Holder> = all
            .filter(is_variable)
            .filter(|of| of.is_own && (STEP + 1..self.facts.request.bytes).contains(&of.bytes))
            .collect();
        let rest = |at| mine.get(at..).unwrap_or_default();
        let pairs = || {
            let others = mine.iter().enumerate();
            others.flat_map(|(at, a)| rest(at + 1).iter().map(move |b| (*a, *b)))
        };
        let of = |(a, b): &(&Holder, &Holder)| columns(a.bytes, b.bytes, self.facts.request.bytes);
        let is_vectors =
            |pair: &(&Holder, &Holder)| of(pair) == Some(1) && pair.0.bytes == pair.1.bytes;
        if let Some((a, b)) = pairs().find(is_vectors) {
            return Some(format!(
                "check the shapes of {} and {}: (N, 1) and (N,) broadcast to (N, N), which .squeeze() or .unsqueeze() of one of them prevents",
                a.text, b.text
            ));
        }
        let is_rows = |pair: &(&Holder, &Holder)| of(pair).is_some_and(|columns| columns > 1);
        if let Some((a, b)) = pairs().find(is_rows) {
            return Some(format!(
                "its size is that of a result for each row of {} with each row of {}: compute it for a part of the rows at a time",
                a.text, b.text
            ));
        }
        let itself = mine.iter().map(|of| (*of, *of)).find(is_rows)?.0;
        Some(format!(
            "its size is that of a result for each row of {name} with each row of {name}: compute it for a part of the rows at a time; torch.linalg.svd() does not make it with full_matrices=False",
            name = itself.text
        ))
    }
}

/// The number of columns of two tensors with these bytes, if a result for each row of one with each row of the other has
/// as many bytes as the request.
fn columns(a: u64, b: u64, request: u64) -> Option<u64> {
    let [a, b, step] = [a, b, STEP].map(u128::from);
    let (least, most) = ((a - step) * (b - step), a * b);
    let found = ELEMENTS.into_iter().find_map(|size| {
        let bytes = u128::from(request) * size;
        let columns = (most / bytes.max(1)).isqrt();
        let fits = (least + 1..=most).contains(&(columns * columns * bytes));
        // The more columns, the more often any size fits.
        let is_exact = columns * (step * (a + b)) * ACCURACY < most;
        let is_larger = bytes > columns * columns * size * size;
        let is_odd = request >> request.trailing_zeros().min(63) >= ODD;
        let counts = columns == 1 || is_exact && is_larger && is_odd;
        (columns > 0 && fits && counts).then_some(columns)
    })?;
    u64::try_from(found).ok()
}
