//! The layout of an RNN's weights in their buffer: all matrices, then all biases. Each layer and
//! direction has the gates' matrices for the input, those for the previous output, and the
//! projection, in this order; biases likewise.
//!
//! A *place* is a layer in one direction: cuDNN's pseudo layer, layer × directions + direction.

use super::descriptor::{Rnn, get};
use crate::handle;
use crate::shape::Shape;
use crate::status::{Done, Status, pointer, require, status};
use crate::tensor::TENSORS;
use gpumem_sim_client::ffi::{Address, Handle, Out};

/// A matrix or a bias within the buffer, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    offset: u128,
    rows: u64,
    columns: u64,
}

impl Rnn {
    /// Columns of the matrices for the input of a layer; 0 where there is no such matrix.
    fn input_columns(&self, layer: u64) -> u64 {
        match layer {
            0 if self.skips_input => 0,
            0 => self.input,
            _ => self.output * self.directions,
        }
    }

    /// Elements of a place's matrices.
    fn matrices(&self, layer: u64) -> u128 {
        let columns = u128::from(self.input_columns(layer) + self.output);
        let gates = u128::from(self.cell.gates() * self.hidden) * columns;
        let projected = self.output * self.hidden * u64::from(self.projects());
        gates + u128::from(projected)
    }

    /// Elements of the matrices of the places before.
    fn matrices_before(&self, place: u64) -> u128 {
        let first = place.min(self.directions);
        let later = place - first;
        u128::from(first) * self.matrices(0) + u128::from(later) * self.matrices(1)
    }

    fn places(&self) -> u64 {
        self.layers * self.directions
    }

    /// The number of biases of one gate.
    fn biases(&self) -> u64 {
        match self.bias {
            0 => 0,
            2 => 2,
            _ => 1,
        }
    }

    /// Elements of a place's biases.
    fn bias_elements(&self) -> u128 {
        u128::from(self.biases() * self.cell.gates() * self.hidden)
    }

    /// Elements of all matrices.
    pub fn all_matrices(&self) -> u128 {
        self.matrices_before(self.places())
    }

    /// Elements of the whole buffer.
    fn weights(&self) -> u128 {
        self.all_matrices() + u128::from(self.places()) * self.bias_elements()
    }

    /// A place's matrix by its number: gates for the input, gates for the previous output,
    /// projection.
    fn matrix(&self, place: u64, number: u64) -> Option<Part> {
        let gates = self.cell.gates();
        let (before, layer) = (self.matrices_before(place), place / self.directions);
        let input = self.input_columns(layer);
        let gate =
            |number: u64, columns: u64| u128::from(number * self.hidden) * u128::from(columns);
        let (inside, rows, columns) = if number < gates {
            (gate(number, input), self.hidden, input)
        } else if number < 2 * gates {
            let inside = gate(gates, input) + gate(number - gates, self.output);
            (inside, self.hidden, self.output)
        } else {
            let inside = gate(gates, input) + gate(gates, self.output);
            (
                inside,
                self.output * u64::from(self.projects()),
                self.hidden,
            )
        };
        let offset = before + inside;
        (rows > 0 && columns > 0).then_some(Part {
            offset,
            rows,
            columns,
        })
    }

    /// The bias of that matrix.
    fn bias(&self, place: u64, number: u64) -> Option<Part> {
        let gates = self.cell.gates();
        let number = match (self.bias, number) {
            (2, number) if number < 2 * gates => number,
            (1, number) if number < gates => number,
            (3, number) if (gates..2 * gates).contains(&number) => number - gates,
            _ => return None,
        };
        let before = self.all_matrices() + u128::from(place) * self.bias_elements();
        Some(Part {
            offset: before + u128::from(number * self.hidden),
            rows: self.hidden,
            columns: 1,
        })
    }
}

/// Bytes of the buffer.
fn space(rnn: &Rnn) -> Done<usize> {
    let bytes = usize::try_from(rnn.bytes(rnn.weights()));
    let bytes = bytes.ok().filter(|bytes| *bytes < usize::MAX);
    bytes.ok_or(Status::NOT_SUPPORTED)
}

/// `cudnnGetRNNWeightSpaceSize`.
pub fn weight_space(handle: Handle, rnn: Handle, bytes: Out<usize>) -> Status {
    let ask = || -> Done {
        handle::stream(handle)?;
        pointer(bytes.put(space(&get(rnn)?)?))
    };
    status(ask())
}

/// Returns one part: its shape, if the caller passed a tensor, and its address.
fn tell(
    rnn: &Rnn,
    part: Option<Part>,
    weights: Address,
    tensor: Handle,
    address: Out<Address>,
) -> Done {
    if tensor != 0 {
        let shape = part.map_or_else(Shape::default, |part| {
            let (rows, columns) = (part.rows as i64, part.columns as i64);
            Shape {
                kind: rnn.kind,
                extents: vec![1, rows, columns],
                strides: vec![rows.saturating_mul(columns), columns, 1],
            }
        });
        TENSORS.set(tensor, shape)?;
    }
    let place = part.map_or(0, |part| {
        weights.wrapping_add(rnn.bytes(part.offset) as usize)
    });
    address.put_if_asked(place);
    Ok(())
}

/// `cudnnGetRNNWeightParams`: a part that does not exist has no dimensions and no address.
#[allow(clippy::too_many_arguments)]
pub fn weight_parameters(
    handle: Handle,
    rnn: Handle,
    place: i32,
    room: usize,
    weights: Address,
    number: i32,
    matrix: Handle,
    matrix_address: Out<Address>,
    bias: Handle,
    bias_address: Out<Address>,
) -> Status {
    let ask = || -> Done {
        handle::stream(handle)?;
        let rnn = get(rnn)?;
        let negative = |_| Status::BAD_PARAM;
        let place = u64::try_from(place).map_err(negative)?;
        let number = u64::try_from(number).map_err(negative)?;
        let known = place < rnn.places() && number <= 2 * rnn.cell.gates();
        require(known && room >= space(&rnn)?, Status::BAD_PARAM)?;
        tell(
            &rnn,
            rnn.matrix(place, number),
            weights,
            matrix,
            matrix_address,
        )?;
        tell(&rnn, rnn.bias(place, number), weights, bias, bias_address)
    };
    status(ask())
}

#[cfg(test)]
mod tests {
    use super::super::descriptor::Cell;
    use super::*;

    fn rnn(cell: Cell, bias: u32, directions: u64, output: u64, layers: u64) -> Rnn {
        Rnn {
            cell,
            bias,
            directions,
            input: 5,
            hidden: 8,
            output,
            layers,
            ..Rnn::default()
        }
    }

    #[test]
    fn parts_lie_side_by_side_and_fill_the_buffer() {
        for cell in [Cell::Plain, Cell::Lstm, Cell::Gru] {
            for (bias, directions, output, layers) in [
                (2, 1, 8, 1),
                (2, 2, 8, 3),
                (0, 1, 8, 2),
                (1, 2, 8, 2),
                (3, 1, 8, 2),
                (2, 2, 3, 2),
            ] {
                let rnn = rnn(cell, bias, directions, output, layers);
                let each = |part: &dyn Fn(u64, u64) -> Option<Part>| -> Vec<Part> {
                    let numbers = 0..=2 * cell.gates();
                    let all = (0..rnn.places())
                        .flat_map(|place| numbers.clone().map(move |number| (place, number)));
                    all.filter_map(|(place, number)| part(place, number))
                        .collect()
                };
                let mut parts = each(&|place, number| rnn.matrix(place, number));
                parts.extend(each(&|place, number| rnn.bias(place, number)));
                let mut end = 0;
                for part in parts {
                    assert_eq!(part.offset, end, "{rnn:?}");
                    end += u128::from(part.rows * part.columns);
                }
                assert_eq!(end, rnn.weights());
            }
        }
    }

    #[test]
    fn an_lstm_of_one_layer_has_the_weights_of_its_equations() {
        let lstm = rnn(Cell::Lstm, 2, 1, 8, 1);
        assert_eq!(lstm.weights(), 4 * 8 * 5 + 4 * 8 * 8 + 2 * 4 * 8);
        assert_eq!(lstm.matrix(0, 8), None, "no projection");
        let projected = rnn(Cell::Lstm, 2, 1, 3, 1);
        let last = projected.matrix(0, 8).unwrap();
        assert_eq!((last.rows, last.columns), (3, 8));
    }

    #[test]
    fn sizes_that_no_buffer_has_are_refused() {
        let most = i32::MAX as u64;
        let huge = Rnn {
            input: most,
            hidden: most,
            output: most,
            layers: most,
            ..rnn(Cell::Lstm, 2, 2, 8, 1)
        };
        assert_eq!(space(&huge), Err(Status::NOT_SUPPORTED));
    }
}
