//! Requests that are as large as a result for each row of one variable with each row of another: distances, similarities,
//! a vector that was broadcast by mistake.

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
/// How many variables are compared: of many, two fit by chance.
const VARIABLES: usize = 6;

impl Text<'_> {
    /// What to do about such a request, which nothing shows but its size.
    pub(super) fn advice_of_product(&self) -> Option<String> {
        let request = &self.facts.request;
        let may = !request.in_forward && !request.in_backward;
        let all = self.facts.all_holders().iter().filter(|_| may);
        let is_variable = |of: &&Holder| {
            let is_tensor = of.kind == HolderKind::Object && of.is_variable() && of.blocks == 1;
            is_tensor && of.is_own && (STEP + 1..request.bytes).contains(&of.bytes)
        };
        let mine: Vec<&Holder> = all.filter(is_variable).take(VARIABLES).collect();
        let pairs = mine.iter().enumerate().flat_map(|(at, a)| {
            let others = mine.iter().skip(at + 1).filter(|b| a.text != b.text);
            others.map(move |b| (*a, *b))
        });
        let fitting = pairs.filter_map(|(a, b)| {
            let columns = columns(a.bytes, b.bytes, request.bytes)?;
            let is_global = |of: &Holder| of.place.starts_with("global ");
            let is_near = |of: &Holder| is_global(of) || self.facts.is_of_request(of);
            let may = if columns > 1 {
                is_near(a) && is_near(b)
            } else {
                a.bytes == b.bytes
            };
            may.then_some((a, b, columns))
        });
        let (a, b, columns) = fitting.min_by_key(|(_, _, columns)| *columns > 1)?;
        Some(match columns {
            1 => format!(
                "check the shapes of {} and {}: if they are (N, 1) and (N,), they broadcast to (N, N), which .squeeze() or .unsqueeze() of one of them prevents",
                a.text, b.text
            ),
            _ => format!(
                "request less at once: if it is a result for each row of {} with each row of {}, as its size may be, compute it for a part of the rows at a time",
                a.text, b.text
            ),
        })
    }
}

/// The number of columns of two tensors with these bytes, if a result for each row of one with each row of the other has
/// as many bytes as the request.
fn columns(a: u64, b: u64, request: u64) -> Option<u64> {
    let [a, b, step] = [a, b, STEP].map(u128::from);
    let (least, most) = ((a - step) * (b - step), a * b);
    let all = ELEMENTS.into_iter().filter_map(|size| {
        let bytes = u128::from(request) * size;
        let columns = (most / bytes.max(1)).isqrt();
        let fits = (least + 1..=most).contains(&(columns * columns * bytes));
        // The more columns, the more often any size fits.
        let is_exact = columns * (step * (a + b)) * ACCURACY < most;
        let is_flat = columns * columns * size < a.min(b);
        let is_odd = request >> request.trailing_zeros().min(63) >= ODD;
        let counts = is_odd && (columns == 1 || is_exact && is_flat);
        (columns > 0 && fits && counts).then_some(columns)
    });
    u64::try_from(all.min()?).ok()
}
