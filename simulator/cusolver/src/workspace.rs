//! Sizes of workspaces, in elements of the matrix's type. A model: LAPACK's rules with a block of
//! 32 columns. cuSOLVER documents no sizes, and these have not been compared with a card.
//!
//! | routine | low: LAPACK's least | likely: LAPACK's best | from |
//! |---|---|---|---|
//! | potrf | 0 | 32 n | assumed: one block of columns |
//! | getrf | n | 32 max(m, n) | assumed: one block of columns |
//! | geqrf, orgqr | n | 32 n | LAPACK `dgeqrf`, `dorgqr` |
//! | ormqr | n (left), m (right) | 32 times that | LAPACK `dormqr` |
//! | sytrf | n | 32 n | LAPACK `dsytrf` |
//! | sytrs | 0 | n × sides | assumed: a copy of the right-hand sides |
//! | gesvd | max(3 min + max, 5 min) | 3 min + 32 (m + n) | LAPACK `dgesvd` |
//! | gesvdj | m + n | m n + n² + 32 (m + n) | assumed: copies of A and V |
//! | gesvdjBatched | batch × (m + n) | batch × (m n + n²) | assumed: the same without blocks |
//! | gesvdaStridedBatched | batch × min² | batch × (m n + 2 min²) | assumed: AᵀA and its vectors |
//! | syevd, syevBatched | 2 n + 1 | 1 + 6 n + 2 n² | LAPACK `dsyevd` without, with vectors |
//! | syevjBatched | batch × n | batch × n² | assumed: a copy |
//! | geev | 4 n | n² + 35 n | LAPACK `dgeev`; a copy assumed |
//!
//! `high` is `likely` plus one copy of the matrices, for all routines. Workspaces on the host are
//! 0.

use gpumem_sim_client::level::Level;

/// Columns of a block.
const BLOCK: u64 = 32;

/// The three figures of one workspace, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    least: u64,
    best: u64,
    matrices: u64,
}

impl Need {
    fn new(least: u64, best: u64, matrices: u64) -> Self {
        Self {
            least: least.min(best),
            best,
            matrices,
        }
    }

    /// The figure of a level.
    pub fn elements(self, level: Level) -> u64 {
        level.of(
            self.least,
            self.best,
            self.best.saturating_add(self.matrices),
        )
    }

    fn times(self, batch: u64) -> Self {
        Self {
            least: self.least.saturating_mul(batch),
            best: self.best.saturating_mul(batch),
            matrices: self.matrices.saturating_mul(batch),
        }
    }
}

/// An upper bound of rows or columns: more than any card has bytes. Small multiples of it fit in 64
/// bits.
const MOST: u64 = 1 << 40;

/// A size as C passes it. A negative one counts as 0; cuSOLVER would reject it.
fn size(number: impl Into<i64>) -> u64 {
    u64::try_from(number.into()).unwrap_or(0).min(MOST)
}

/// The Cholesky factorisation of n × n.
pub fn potrf(n: impl Into<i64>) -> Need {
    let n = size(n);
    Need::new(0, n.saturating_mul(BLOCK), n.saturating_mul(n))
}

/// The LU factorisation of m × n.
pub fn getrf(m: impl Into<i64>, n: impl Into<i64>) -> Need {
    let (m, n) = (size(m), size(n));
    Need::new(n, m.max(n).saturating_mul(BLOCK), m.saturating_mul(n))
}

/// The QR factorisation of m × n, and the generation of Q.
pub fn geqrf(m: impl Into<i64>, n: impl Into<i64>) -> Need {
    let (m, n) = (size(m), size(n));
    Need::new(n, n.saturating_mul(BLOCK), m.saturating_mul(n))
}

/// Multiplying m × n by Q, from the left (0) or from the right.
pub fn ormqr(side: u32, m: impl Into<i64>, n: impl Into<i64>) -> Need {
    let (m, n) = (size(m), size(n));
    let other = if side == 0 { n } else { m };
    Need::new(other, other.saturating_mul(BLOCK), m.saturating_mul(n))
}

/// The LDLᵀ factorisation of n × n.
pub fn sytrf(n: impl Into<i64>) -> Need {
    let n = size(n);
    Need::new(n, n.saturating_mul(BLOCK), n.saturating_mul(n))
}

/// Solving with it.
pub fn sytrs(n: impl Into<i64>, sides: impl Into<i64>) -> Need {
    let both = size(n).saturating_mul(size(sides));
    Need::new(0, both, both)
}

/// The singular values of m × n, by QR iteration.
pub fn gesvd(m: impl Into<i64>, n: impl Into<i64>) -> Need {
    let (m, n) = (size(m), size(n));
    let (less, more) = (m.min(n), m.max(n));
    Need::new(
        (3 * less).saturating_add(more).max(5 * less),
        (3 * less).saturating_add(BLOCK.saturating_mul(m.saturating_add(n))),
        m.saturating_mul(n),
    )
}

/// The same by Jacobi's method.
pub fn gesvdj(m: impl Into<i64>, n: impl Into<i64>) -> Need {
    let (m, n) = (size(m), size(n));
    let copies = m.saturating_mul(n).saturating_add(n.saturating_mul(n));
    let blocks = BLOCK.saturating_mul(m.saturating_add(n));
    Need::new(
        m.saturating_add(n),
        copies.saturating_add(blocks),
        m.saturating_mul(n),
    )
}

/// The same of a batch of small matrices.
pub fn gesvdj_batched(m: impl Into<i64>, n: impl Into<i64>, batch: impl Into<i64>) -> Need {
    let (m, n) = (size(m), size(n));
    let copies = m.saturating_mul(n).saturating_add(n.saturating_mul(n));
    Need::new(m.saturating_add(n), copies, m.saturating_mul(n)).times(size(batch))
}

/// The same of a batch of tall matrices, approximately.
pub fn gesvda_batched(m: impl Into<i64>, n: impl Into<i64>, batch: impl Into<i64>) -> Need {
    let (m, n) = (size(m), size(n));
    let square = m.min(n).saturating_mul(m.min(n));
    let matrix = m.saturating_mul(n);
    let best = matrix.saturating_add(square.saturating_mul(2));
    Need::new(square, best, matrix).times(size(batch))
}

/// Eigenvalues of a symmetric n × n, with their vectors or not.
pub fn syevd(vectors: u32, n: impl Into<i64>) -> Need {
    let n = size(n);
    let square = n.saturating_mul(n);
    let without = 2 * n + 1;
    let with = square.saturating_mul(2).saturating_add(6 * n + 1);
    Need::new(without, if vectors == 0 { without } else { with }, square)
}

/// The same of a batch.
pub fn syev_batched(vectors: u32, n: impl Into<i64>, batch: impl Into<i64>) -> Need {
    syevd(vectors, n).times(size(batch))
}

/// The same by Jacobi's method.
pub fn syevj_batched(n: impl Into<i64>, batch: impl Into<i64>) -> Need {
    let n = size(n);
    let square = n.saturating_mul(n);
    Need::new(n, square, square).times(size(batch))
}

/// Eigenvalues of any n × n.
pub fn geev(n: impl Into<i64>) -> Need {
    let n = size(n);
    let square = n.saturating_mul(n);
    Need::new(
        4 * n,
        square.saturating_add(n.saturating_mul(BLOCK + 3)),
        square,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(need: Need) -> [u64; 3] {
        [Level::Low, Level::Likely, Level::High].map(|level| need.elements(level))
    }

    #[test]
    fn workspaces_are_lapacks() {
        assert_eq!(all(potrf(100)), [0, 3200, 13_200]);
        assert_eq!(all(getrf(200, 100)), [100, 6400, 26_400]);
        assert_eq!(all(geqrf(200, 100)), [100, 3200, 23_200]);
        assert_eq!(all(ormqr(0, 200, 100)), [100, 3200, 23_200]);
        assert_eq!(all(ormqr(1, 200, 100)), [200, 6400, 26_400]);
        assert_eq!(all(gesvd(200, 100)), [500, 300 + 9600, 300 + 9600 + 20_000]);
        assert_eq!(all(syevd(1, 10)), [21, 261, 361]);
        assert_eq!(all(syevd(0, 10)), [21, 21, 121]);
        assert_eq!(all(syev_batched(1, 10, 4)), [84, 1044, 1444]);
        assert_eq!(all(gesvda_batched(30, 10, 2)), [200, 1000, 1600]);
    }

    #[test]
    fn ranges_are_in_order_and_saturate() {
        for need in [
            potrf(0),
            getrf(1, 1),
            geqrf(3, 5),
            sytrf(7),
            sytrs(7, 2),
            gesvd(1, 1000),
            gesvdj(4, 4),
            gesvdj_batched(32, 32, 9),
            syevj_batched(1, 1),
            geev(2),
            gesvd(i64::MAX, i64::MAX),
            syevd(1, i64::MAX),
            potrf(-1),
        ] {
            let [low, likely, high] = all(need);
            assert!(low <= likely && likely <= high, "{need:?}");
        }
    }
}
