//! Memory over time as columns of characters.

use gpumem_analyzer::ranks::{Course, Part, Parts};

use super::spot::TimeAxis;

/// The columns of a chart, and its scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chart {
    /// The highest memory in each column.
    pub(super) columns: Vec<Parts>,
    /// The bytes at the chart's upper edge.
    pub(super) most: u64,
    /// The columns' times.
    pub(super) axis: TimeAxis,
}

impl Chart {
    /// The newest part of the memory over time that fits so many columns; each column has a whole number of buckets.
    pub(super) fn of(course: &Course, started_wall_ns: u64, width: usize) -> Self {
        let width = width.max(1);
        let each = course.greatest.len().div_ceil(width).max(1);
        let columns: Vec<Parts> = course
            .greatest
            .chunks(each)
            .map(|buckets| {
                let mut most = Parts::default();
                for parts in buckets {
                    for (most, part) in most.iter_mut().zip(parts) {
                        *most = (*most).max(*part);
                    }
                }
                most
            })
            .collect();
        let most = columns.iter().flatten().copied().max().unwrap_or(0);
        let axis = TimeAxis::of(course, started_wall_ns, each, columns.len());
        Self {
            columns,
            most,
            axis,
        }
    }

    /// The part shown in a cell: `row` counts from the top of `height`; `None` if the cell is empty.
    pub(super) fn cell(&self, column: usize, row: u16, height: u16) -> Option<Part> {
        let parts = self.columns.get(column)?;
        // The smallest memory that reaches the middle of the cell.
        let from_below = u128::from(height - row) * 2 - 1;
        let least = u128::from(self.most) * from_below / (u128::from(height) * 2);
        let reaches = |part: &Part| {
            let held = u128::from(parts[*part as usize]);
            held > 0 && held >= least
        };
        Part::ALL.into_iter().find(reaches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_whole_buckets_and_cells_the_innermost_part() {
        let course = Course {
            shift: 20,
            first: 7,
            greatest: vec![[1, 2, 8], [4, 6, 8], [0, 0, 8]],
        };
        let chart = Chart::of(&course, 0, 2);
        assert_eq!(chart.columns, [[4, 6, 8], [0, 0, 8]]);
        assert_eq!((chart.most, chart.axis.width_ns), (8, 2 << 20));
        let column = |at| (0..4).map(|row| chart.cell(at, row, 4)).collect::<Vec<_>>();
        let (tensors, reserved, process) = (Part::Tensors, Part::Reserved, Part::Process);
        assert_eq!(column(0), [process, reserved, tensors, tensors].map(Some));
        assert_eq!(column(1), [process; 4].map(Some));
        assert_eq!(column(2), [None; 4]);
    }
}
