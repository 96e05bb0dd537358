//! Compares the model with the sizes that NVIDIA's cuDNN 7.6.5 requested on the simulated driver,
//! under PyTorch 1.12.1.

use super::*;
use crate::shape::DataType;

/// An RNN with input 64 and hidden 128 over 8 sequences: cell, output, layers, directions, drops, data
/// type, steps; its reserve and workspace.
type Case = (Cell, u64, u64, u64, bool, u32, u64, u64, u64);

const FLOAT: u32 = 0;
const HALF: u32 = 2;

const MEASURED: &[Case] = &[
    (Cell::Lstm, 128, 1, 1, false, FLOAT, 10, 204_800, 630_784),
    (Cell::Lstm, 128, 2, 1, false, FLOAT, 10, 450_560, 1_228_800),
    (Cell::Lstm, 128, 3, 1, false, FLOAT, 10, 696_320, 1_826_816),
    (Cell::Lstm, 128, 1, 2, false, FLOAT, 10, 409_600, 1_441_792),
    (Cell::Lstm, 128, 2, 2, false, FLOAT, 10, 901_120, 3_178_496),
    (Cell::Lstm, 128, 1, 1, false, FLOAT, 20, 409_600, 794_624),
    (Cell::Lstm, 128, 2, 1, false, HALF, 10, 225_280, 614_400),
    (Cell::Gru, 128, 1, 1, false, FLOAT, 10, 245_760, 466_944),
    (Cell::Gru, 128, 2, 1, false, FLOAT, 10, 532_480, 909_312),
    (Cell::Gru, 128, 1, 2, false, FLOAT, 20, 983_040, 1_523_712),
    (Cell::Gru, 128, 3, 2, false, FLOAT, 10, 1_638_400, 3_702_784),
    (Cell::Plain, 128, 1, 1, false, FLOAT, 10, 40_960, 196_608),
    (Cell::Plain, 128, 2, 1, false, FLOAT, 10, 122_880, 344_064),
    (Cell::Plain, 128, 3, 2, false, FLOAT, 20, 819_200, 1_785_856),
    (Cell::Lstm, 32, 1, 1, false, FLOAT, 10, 256_000, 491_520),
    (Cell::Lstm, 32, 2, 1, false, FLOAT, 10, 552_960, 712_704),
    (Cell::Lstm, 64, 3, 1, false, FLOAT, 10, 880_640, 1_310_720),
    (Cell::Lstm, 128, 3, 1, true, FLOAT, 10, 698_880, 1_867_776),
    (Cell::Lstm, 128, 3, 2, true, FLOAT, 10, 1_402_880, 4_915_200),
];

#[test]
fn sizes_are_those_of_cudnn_7() {
    for &(cell, output, layers, directions, drops, kind, steps, kept, scratch) in MEASURED {
        let rnn = Rnn {
            cell,
            bias: 0,
            directions,
            kind: DataType(kind),
            input: 64,
            hidden: 128,
            output,
            layers,
            drops,
            ..Rnn::default()
        };
        let data = Data {
            steps,
            batch: 8,
            cells: 8 * steps,
        };
        assert_eq!(reserve(&rnn, &data), kept, "reserve of {rnn:?}");
        assert_eq!(workspace(&rnn, &data), scratch, "workspace of {rnn:?}");
    }
}

/// Two layers, hidden 128, 8 sequences of up to 10 steps: the number of steps that hold data,
/// reserve and workspace.
#[test]
fn packed_sequences_cost_what_they_hold() {
    for (cell, cells, kept, scratch) in [
        (Cell::Lstm, 52, 292_864, 1_171_456),
        (Cell::Gru, 52, 346_112, 866_304),
        (Cell::Lstm, 17, 95_744, 1_099_776),
    ] {
        let rnn = Rnn {
            cell,
            directions: 1,
            input: 64,
            hidden: 128,
            output: 128,
            layers: 2,
            ..Rnn::default()
        };
        let data = Data {
            steps: 10,
            batch: 8,
            cells,
        };
        assert_eq!(
            (reserve(&rnn, &data), workspace(&rnn, &data)),
            (kept, scratch)
        );
    }
}

/// pytorch/pytorch#2895 reports the reserves of an LSTM and a GRU of four layers on a P100.
#[test]
fn reserves_have_the_published_ratio() {
    let reserve_of = |cell| {
        let rnn = Rnn {
            cell,
            directions: 1,
            hidden: 200,
            output: 200,
            layers: 4,
            ..Rnn::default()
        };
        let cells = 10_000;
        reserve(
            &rnn,
            &Data {
                steps: 100,
                batch: 100,
                cells,
            },
        )
    };
    assert_eq!(reserve_of(Cell::Lstm) * 864, reserve_of(Cell::Gru) * 736);
}

#[test]
fn the_greatest_sizes_do_not_wrap_around() {
    let most = i32::MAX as u64;
    let rnn = Rnn {
        cell: Cell::Gru,
        directions: 2,
        hidden: most,
        output: most,
        input: most,
        layers: most,
        drops: true,
        ..Rnn::default()
    };
    let data = Data {
        steps: most,
        batch: most,
        cells: most * most,
    };
    assert_eq!(reserve(&rnn, &data), u64::MAX);
    assert_eq!(workspace(&rnn, &data), u64::MAX);
}
