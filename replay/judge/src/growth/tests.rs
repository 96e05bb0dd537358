use super::*;

/// A series of one block for each `7` bytes.
fn series(of: impl Fn(u64) -> u64, rounds: u64) -> Vec<(u64, Figure)> {
    let figure = |bytes| Figure {
        bytes,
        blocks: bytes / 7,
    };
    (1..=rounds)
        .map(|round| (round, figure(of(round))))
        .collect()
}

fn grows(of: impl Fn(u64) -> u64, rounds: u64) -> bool {
    Growth::of(&series(of, rounds)).is_growth
}

#[test]
fn what_grows_is_told_from_what_fills_up_and_what_goes_up_and_down() {
    assert!(grows(|round| 7 * round, 4));
    assert!(grows(|round| 7 * (round / 10), 60), "now and then");
    assert!(
        grows(|round| 7 * round.saturating_sub(30), 60),
        "from the middle on"
    );
    assert!(!grows(|round| 7 * round, 3), "too few");
    assert!(!grows(|round| 7 * round.min(10), 60), "a ring buffer");
    assert!(!grows(|round| 7 * round.min(35), 60), "a large one");
    assert!(!grows(|round| 7 * (round % 20), 70), "flushed");
    assert!(!grows(|_| 7, 60));
    assert!(!grows(|round| round * 2_654_435_761 % 97, 60), "at random");
    assert!(!grows(|round| 1000 - round, 60));
    assert!(!grows(|round| 700 * round.min(2), 9), "a warm-up");
}

#[test]
fn blocks_that_become_larger_grow_only_if_they_always_do() {
    let of_one_block = |bytes: &[u64]| {
        let figures = bytes.iter().map(|bytes| Figure::block(*bytes));
        Growth::of(&(1..).zip(figures).collect::<Vec<_>>()).is_growth
    };
    assert!(of_one_block(&[10, 20, 30, 40, 50]), "a longer cache");
    assert!(
        !of_one_block(&[10, 30, 20, 40, 50]),
        "batches of any length"
    );
}

#[test]
fn a_constant_changes_nothing() {
    for of in [
        [1, 4, 9, 16, 25, 36],
        [3, 3, 3, 9, 9, 9],
        [9, 7, 5, 3, 2, 1],
    ] {
        let plus = |more| {
            let add = |bytes: u64| Figure {
                bytes: bytes + more,
                blocks: bytes + more,
            };
            Growth::of(&(1..).zip(of.map(add)).collect::<Vec<_>>())
        };
        assert_eq!(plus(0), plus(1 << 30));
    }
}

#[test]
fn the_slope_is_exact_where_growth_is_even() {
    let of = |series: &[(u64, Figure)]| {
        let of = Growth::of(series);
        (of.per_round, of.range)
    };
    let even = |by: i64| (by, (by, by));
    assert_eq!(of(&series(|n| 1_048_576 * n + 17, 50)), even(1_048_576));
    assert_eq!(of(&series(|n| 5000 - 3 * n, 50)), even(-3));
    assert_eq!(of(&series(|_| 9, 50)), even(0));
    assert_eq!(of(&[(1, Figure::block(5))]), even(0));
    assert_eq!(of(&[]), even(0));
    let far = [(1, Figure::default()), (u64::MAX, Figure::block(u64::MAX))];
    assert_eq!(of(&far).0, 1 << 24);
}

#[test]
fn growth_that_is_not_even_has_a_range() {
    // 10 a round, later 30.
    let of = Growth::of(&series(|n| 10 * n + 20 * n.saturating_sub(15), 30));
    assert_eq!(of.range, (10, 30));
    assert!((10..30).contains(&of.per_round) && of.is_growth);
    assert_eq!(of.text(), "10 to 30 B");
    let mut two = of;
    two += of;
    assert_eq!((two.range, two.text()), ((20, 60), "20 to 60 B".into()));
}

#[test]
fn rounds_stay_few_and_evenly_apart() {
    let mut ends = Ends::from(3);
    let mut taken = 0;
    for round in 1..=100_000 {
        ends.end(round, || {
            taken += 1;
            [(0, Figure::block(round)), (1, Figure::default())]
        });
    }
    let rounds = ends.rounds();
    assert!(rounds.len() >= MOST / 2 && rounds.len() < MOST);
    assert!(taken < 1000, "{taken}");
    let apart: Vec<u64> = rounds.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(apart.iter().all(|of| *of == ends.stride), "{apart:?}");
    assert_eq!(rounds[0], 3);
    assert_eq!(ends.keys().collect::<Vec<_>>(), [0]);
    let all = ends.sum(&[0, 1]);
    assert!(all.iter().all(|(round, figure)| *round == figure.bytes));
    assert_eq!(all.len(), rounds.len());
}

#[test]
fn the_small_tensor_that_comes_last_in_each_round_holds_the_others() {
    let line = |bytes, rounds, place| KeptEach {
        bytes,
        rounds,
        place,
    };
    let (layer, batch) = (line(8 << 20, 40, 10), line(1 << 20, 40, 1));
    let holder = |first| KeptEach::holder(&[layer, batch, first]);
    assert_eq!(holder(line(512, 39, 30)), Some(2), "a loss");
    assert_eq!(KeptEach::holder(&[layer, batch]), None, "nothing small");
    assert_eq!(holder(line(512, 2, 30)), None, "seldom");
    assert_eq!(holder(line(512, 40, 5)), None, "it comes before");
    assert_eq!(KeptEach::holder(&[]), None);
}
