//! Attributes: the descriptors that have them, their types, and the number of their elements.

use crate::array::MOST;

/// `cudnnBackendAttributeType_t`.
pub type ElementType = u32;

/// `CUDNN_TYPE_…`.
pub const HANDLE: ElementType = 0;
/// `cudnnDataType_t`.
pub const DATA_TYPE: ElementType = 1;
/// `int64_t`.
pub const INT64: ElementType = 3;
/// `void *`.
pub const VOID_PTR: ElementType = 6;
/// `cudnnBackendHeurMode_t`.
pub const HEUR_MODE: ElementType = 8;
/// `cudnnBackendDescriptor_t`.
pub const DESCRIPTOR: ElementType = 15;
/// `int32_t`.
pub const INT32: ElementType = 23;

/// Bytes of an element; `None` for a type that cuDNN 9.26 does not have.
pub fn element_bytes(kind: ElementType) -> Option<usize> {
    Some(match kind {
        HANDLE | INT64 | 5 | VOID_PTR | DESCRIPTOR => 8,
        2 | 24 => 1,
        26 => 16,
        0..=32 => 4,
        _ => return None,
    })
}

/// `cudnnBackendDescriptorType_t`.
pub type Kind = u32;

/// Kinds of descriptors whose attributes have a meaning here.
pub const CONVOLUTION: Kind = 1;
/// An engine.
pub const ENGINE: Kind = 2;
/// An engine with its knobs.
pub const ENGINECFG: Kind = 3;
/// Heuristics.
pub const ENGINEHEUR: Kind = 4;
/// A plan.
pub const PLAN: Kind = 5;
/// The forward convolution.
pub const CONVOLUTION_FORWARD: Kind = 10;
/// The gradient of a filter.
pub const CONVOLUTION_FILTER: Kind = 11;
/// The gradient of an input.
pub const CONVOLUTION_DATA: Kind = 12;
/// A graph of operations.
pub const GRAPH: Kind = 15;
/// Addresses for one execution.
pub const VARIANT_PACK: Kind = 16;
/// A tensor.
pub const TENSOR: Kind = 17;
/// The number of kinds in cuDNN 9.26.
pub const KINDS: Kind = 51;

/// One attribute, or several with the same rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    first: u32,
    last: u32,
    kind: Kind,
    /// The type of the elements, if it is known.
    pub element: Option<ElementType>,
    /// The greatest number of elements.
    pub most: usize,
    /// The kind of descriptor of the elements.
    pub child: Option<Kind>,
}

const fn any(first: u32, last: u32, kind: Kind) -> Rule {
    Rule {
        first,
        last,
        kind,
        element: None,
        most: MOST,
        child: None,
    }
}

const fn typed(number: u32, kind: Kind, element: ElementType, most: usize) -> Rule {
    Rule {
        element: Some(element),
        most,
        ..any(number, number, kind)
    }
}

const fn child(number: u32, kind: Kind, child: Kind) -> Rule {
    Rule {
        child: Some(child),
        ..typed(number, kind, DESCRIPTOR, 1)
    }
}

/// More dimensions than any operation takes.
const DIMENSIONS: usize = 64;

/// The first matching row applies. Numbers are those of cuDNN 9.26's headers.
const RULES: &[Rule] = &[
    any(0, 9, 0),
    typed(100, CONVOLUTION, DATA_TYPE, 1),
    any(101, 106, CONVOLUTION),
    typed(200, ENGINEHEUR, HEUR_MODE, 1),
    child(201, ENGINEHEUR, GRAPH),
    Rule {
        most: MOST,
        ..child(202, ENGINEHEUR, ENGINECFG)
    },
    any(203, 204, ENGINEHEUR),
    child(300, ENGINECFG, ENGINE),
    any(301, 302, ENGINECFG),
    typed(303, ENGINECFG, INT64, 1),
    typed(304, ENGINECFG, INT32, 1),
    typed(400, PLAN, HANDLE, 1),
    child(401, PLAN, ENGINECFG),
    typed(402, PLAN, INT64, 1),
    any(403, 407, PLAN),
    any(500, 503, 6),
    any(600, 601, 7),
    any(700, 701, CONVOLUTION_FORWARD),
    child(702, CONVOLUTION_FORWARD, CONVOLUTION),
    child(703, CONVOLUTION_FORWARD, TENSOR),
    child(704, CONVOLUTION_FORWARD, TENSOR),
    child(705, CONVOLUTION_FORWARD, TENSOR),
    any(706, 707, CONVOLUTION_DATA),
    child(708, CONVOLUTION_DATA, CONVOLUTION),
    child(709, CONVOLUTION_DATA, TENSOR),
    child(710, CONVOLUTION_DATA, TENSOR),
    child(711, CONVOLUTION_DATA, TENSOR),
    any(712, 713, CONVOLUTION_FILTER),
    child(714, CONVOLUTION_FILTER, CONVOLUTION),
    child(715, CONVOLUTION_FILTER, TENSOR),
    child(716, CONVOLUTION_FILTER, TENSOR),
    child(717, CONVOLUTION_FILTER, TENSOR),
    any(750, 758, 13),
    any(770, 774, 14),
    any(780, 796, 20),
    typed(800, GRAPH, HANDLE, 1),
    typed(801, GRAPH, DESCRIPTOR, MOST),
    typed(802, GRAPH, INT64, 1),
    any(803, 806, GRAPH),
    typed(900, TENSOR, INT64, 1),
    typed(901, TENSOR, DATA_TYPE, 1),
    typed(902, TENSOR, INT64, DIMENSIONS),
    typed(903, TENSOR, INT64, DIMENSIONS),
    typed(904, TENSOR, INT64, 1),
    typed(905, TENSOR, INT64, 1),
    typed(906, TENSOR, INT64, 1),
    any(907, 914, TENSOR),
    typed(1000, VARIANT_PACK, INT64, MOST),
    typed(1001, VARIANT_PACK, VOID_PTR, MOST),
    any(1002, 1002, VARIANT_PACK),
    typed(1003, VARIANT_PACK, VOID_PTR, 1),
    any(1010, 1012, VARIANT_PACK),
    any(1100, 1101, 9),
    any(1200, 1203, 8),
    child(1300, ENGINE, GRAPH),
    typed(1301, ENGINE, INT64, 1),
    any(1302, 1308, ENGINE),
    any(1500, 1503, 18),
    any(1520, 1527, 19),
    any(1600, 1602, 21),
    any(1610, 1613, 22),
    any(1620, 1630, 23),
    any(1700, 1708, 24),
    any(1710, 1716, 25),
    any(1720, 1727, 26),
    any(1800, 1803, 27),
    any(1900, 1904, 28),
    any(1950, 1953, 35),
    any(2000, 2014, 29),
    any(2100, 2110, 30),
    any(2200, 2202, 31),
    any(2250, 2257, 39),
    any(2270, 2276, 40),
    any(2300, 2305, 32),
    any(2310, 2313, 33),
    any(2400, 2402, 34),
    any(2500, 2504, 36),
    any(2600, 2605, 37),
    any(2700, 2702, 38),
    any(2800, 2829, 41),
    any(2851, 2869, 43),
    any(2900, 2908, 42),
    any(2951, 2955, 48),
    any(3000, 3009, 44),
    any(3100, 3105, 45),
    any(3200, 3202, 46),
    any(3300, 3304, 47),
    any(3400, 3404, 49),
    any(3410, 3414, 50),
];

/// The rule for an attribute of a descriptor; `None` if it has no such attribute.
pub fn rule(kind: Kind, attribute: u32) -> Option<&'static Rule> {
    let fits = |rule: &&Rule| (rule.first..=rule.last).contains(&attribute);
    RULES.iter().find(fits).filter(|rule| rule.kind == kind)
}

/// Attributes that a descriptor must have when it is finalized.
pub fn required(kind: Kind) -> &'static [u32] {
    match kind {
        ENGINE => &[1300, 1301],
        ENGINECFG => &[300],
        ENGINEHEUR => &[201],
        PLAN => &[401],
        CONVOLUTION_FORWARD => &[702, 703, 704, 705],
        CONVOLUTION_DATA => &[708, 709, 710, 711],
        CONVOLUTION_FILTER => &[714, 715, 716, 717],
        GRAPH => &[801],
        TENSOR => &[902, 903],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_in_order_and_apart() {
        for pair in RULES.windows(2) {
            let apart = pair[0].last < pair[1].first;
            assert!(apart, "{:?}", pair);
        }
        assert!(RULES.iter().all(|rule| rule.kind < KINDS));
    }

    #[test]
    fn attributes_belong_to_one_kind() {
        assert!(rule(TENSOR, 902).is_some());
        assert!(rule(GRAPH, 902).is_none());
        assert!(rule(TENSOR, 5000).is_none());
        for kind in 0..KINDS {
            for attribute in required(kind) {
                assert!(rule(kind, *attribute).is_some());
            }
        }
    }

    #[test]
    fn elements_have_the_sizes_of_the_header() {
        let bytes = [HANDLE, 1, 2, INT64, 4, 5, 15, 23, 24, 26].map(element_bytes);
        let sizes = [8, 4, 1, 8, 4, 8, 8, 4, 1, 16].map(Some);
        assert_eq!(bytes, sizes);
        assert_eq!(element_bytes(33), None);
    }
}
