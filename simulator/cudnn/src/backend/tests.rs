//! Tests of the store, with valid and invalid calls. Statuses are those of NVIDIA's library for the
//! same calls, where it does not crash.

use super::attribute::*;
use super::*;
use crate::status::Status;
use gpumem_sim_client::ffi::{Address, Handle, Out};

fn place<T>(values: &[T]) -> Address {
    values.as_ptr() as Address
}

fn make(kind: Kind) -> Handle {
    let mut handle = 0;
    assert_eq!(create(kind, Out::to(&mut handle)), Status::SUCCESS);
    handle
}

fn set<T>(handle: Handle, attribute: u32, element: ElementType, values: &[T]) -> Status {
    set_attribute(
        handle,
        attribute,
        element,
        values.len() as i64,
        place(values),
    )
}

fn finalized(kind: Kind, attributes: &[(u32, Handle)]) -> Handle {
    let handle = make(kind);
    for (attribute, child) in attributes {
        assert_eq!(
            set(handle, *attribute, DESCRIPTOR, &[*child]),
            Status::SUCCESS
        );
    }
    assert_eq!(finalize(handle), Status::SUCCESS);
    handle
}

fn tensor(extents: [i64; 4]) -> Handle {
    let handle = make(TENSOR);
    let [_, c, h, w] = extents;
    for status in [
        set(handle, 901, DATA_TYPE, &[0_i32]),
        set(handle, 902, INT64, &extents),
        set(handle, 903, INT64, &[c * h * w, h * w, w, 1]),
        finalize(handle),
    ] {
        assert_eq!(status, Status::SUCCESS);
    }
    handle
}

/// The number of elements, and the first ones.
fn numbers(handle: Handle, attribute: u32, wanted: i64) -> (Status, i64, [i64; 4]) {
    let (mut told, mut values) = (-7, [-7; 4]);
    let to = if wanted == 0 {
        0
    } else {
        values.as_mut_ptr() as Address
    };
    let status = get_attribute(handle, attribute, INT64, wanted, Out::to(&mut told), to);
    (status, told, values)
}

/// A graph of one convolution of float tensors in NCHW, its parts destroyed.
fn graph() -> Handle {
    let parts = [
        finalized(CONVOLUTION, &[]),
        tensor([8, 3, 1, 1]),
        tensor([2, 3, 4, 4]),
        tensor([2, 8, 4, 4]),
    ];
    let attributes: Vec<(u32, Handle)> = (702..).zip(parts).collect();
    let operation = finalized(CONVOLUTION_FORWARD, &attributes);
    let graph = finalized(GRAPH, &[(801, operation)]);
    for part in parts.into_iter().chain([operation]) {
        assert_eq!(destroy(part), Status::SUCCESS);
    }
    graph
}

const WORKSPACE: i64 = 4 * (8 * 3 + 2 * 3 * 16 + 2 * 8 * 16);

/// Queries heuristics for up to `room` configurations.
fn heuristics(graph: Handle, room: usize) -> (i64, Vec<Handle>) {
    let heuristics = finalized(ENGINEHEUR, &[(201, graph)]);
    let handles: Vec<Handle> = (0..room).map(|_| make(ENGINECFG)).collect();
    let mut told = -7;
    let to = if room == 0 { 0 } else { place(&handles) };
    let told_to = Out::to(&mut told);
    let asked = get_attribute(heuristics, 202, DESCRIPTOR, room as i64, told_to, to);
    assert_eq!(
        (asked, destroy(heuristics)),
        (Status::SUCCESS, Status::SUCCESS)
    );
    (told, handles)
}

#[test]
fn heuristics_give_the_workspace_first_and_none_second() {
    let graph = graph();
    assert_eq!(heuristics(graph, 0).0, 2);
    assert_eq!(
        numbers(graph, 802, 1),
        (Status::SUCCESS, 1, [2, -7, -7, -7])
    );
    let (told, configurations) = heuristics(graph, 5);
    assert_eq!((told, destroy(graph)), (2, Status::SUCCESS));
    for (configuration, workspace) in configurations[..2].iter().zip([WORKSPACE, 0]) {
        let plan = finalized(PLAN, &[(401, *configuration)]);
        for (handle, attribute) in [(*configuration, 303), (plan, 402)] {
            assert_eq!(
                numbers(handle, attribute, 1),
                (Status::SUCCESS, 1, [workspace, -7, -7, -7])
            );
        }
        let engine = make(ENGINE);
        let told = Out::NOWHERE;
        let got = get_attribute(*configuration, 300, DESCRIPTOR, 1, told, place(&[engine]));
        assert_eq!(got, Status::SUCCESS);
        assert_eq!(numbers(engine, 1301, 1).2[0], i64::from(workspace == 0));
        let mut notes = -7;
        let asked = get_attribute(engine, 1303, 11, 0, Out::to(&mut notes), 0);
        assert_eq!((asked, notes), (Status::SUCCESS, 0));
    }
    assert_eq!(
        numbers(configurations[2], 303, 1).0,
        Status::BAD_PARAM_NOT_FINALIZED
    );
}

#[test]
fn attributes_are_given_as_far_as_there_is_room() {
    let tensor = tensor([1, 2, 3, 4]);
    for (wanted, told, values) in [
        (0, 4, [-7; 4]),
        (2, 2, [1, 2, -7, -7]),
        (4, 4, [1, 2, 3, 4]),
        (60_000, 4, [1, 2, 3, 4]),
    ] {
        assert_eq!(
            numbers(tensor, 902, wanted),
            (Status::SUCCESS, told, values)
        );
    }
    assert_eq!(
        numbers(tensor, 904, 1),
        (Status::SUCCESS, 0, [-7; 4]),
        "never set"
    );
    let mut values = [0_i64; 4];
    let to = values.as_mut_ptr() as Address;
    let status = get_attribute(tensor, 902, INT64, 4, Out::NOWHERE, to);
    assert_eq!((status, values), (Status::SUCCESS, [1, 2, 3, 4]));
}

#[test]
fn wrong_questions_are_refused() {
    let tensor = tensor([1, 2, 3, 4]);
    for wanted in [-1, i64::MIN, i64::MAX, 1 << 20] {
        assert_eq!(
            numbers(tensor, 902, wanted),
            (Status::BAD_PARAM, -7, [-7; 4])
        );
    }
    assert_eq!(
        numbers(tensor, 300, 4).0,
        Status::BAD_PARAM,
        "another kind's attribute"
    );
    assert_eq!(numbers(tensor, 901, 1).0, Status::BAD_PARAM_ATTRIBUTE_TYPE);
    assert_eq!(numbers(0, 902, 4).0, Status::BAD_PARAM_NULL_POINTER);
    assert_eq!(numbers(77, 902, 4).0, Status::BAD_PARAM);
    assert_eq!(
        numbers(make(TENSOR), 902, 4).0,
        Status::BAD_PARAM_NOT_FINALIZED
    );
    // By value or virtual: any element type is valid, but its size is checked.
    let flag = make(TENSOR);
    assert_eq!(set(flag, 902, INT64, &[1_i64]), Status::SUCCESS);
    assert_eq!(set(flag, 903, INT64, &[1_i64]), Status::SUCCESS);
    assert_eq!(set(flag, 907, 2, &[1_u8]), Status::SUCCESS);
    assert_eq!(finalize(flag), Status::SUCCESS);
    assert_eq!(numbers(flag, 907, 1).0, Status::BAD_PARAM_ATTRIBUTE_TYPE);
}

#[test]
fn wrong_settings_are_refused() {
    let handle = make(TENSOR);
    let numbers = [1_i64; 4];
    let set_to = |count: i64, from| set_attribute(handle, 902, INT64, count, from);
    for count in [-1, 0, 65, i64::MAX, i64::MIN] {
        assert_eq!(set_to(count, place(&numbers)), Status::BAD_PARAM, "{count}");
    }
    assert_eq!(set_to(4, 0), Status::BAD_PARAM);
    assert_eq!(
        set(handle, 902, 4, &numbers),
        Status::BAD_PARAM_ATTRIBUTE_TYPE
    );
    assert_eq!(
        set(handle, 902, 99, &numbers),
        Status::BAD_PARAM_ATTRIBUTE_TYPE
    );
    assert_eq!(
        set(handle, 906, INT64, &numbers),
        Status::BAD_PARAM,
        "one number"
    );
    assert_eq!(set(handle, 300, DESCRIPTOR, &[handle]), Status::BAD_PARAM);
    assert_eq!(set(0, 902, INT64, &numbers), Status::BAD_PARAM_NULL_POINTER);
    assert_eq!(set(77, 902, INT64, &numbers), Status::BAD_PARAM);
    assert_eq!(finalize(handle), Status::BAD_PARAM, "no extents");
    assert_eq!(set(handle, 902, INT64, &numbers), Status::SUCCESS);
    assert_eq!(set(handle, 903, INT64, &numbers[..3]), Status::SUCCESS);
    assert_eq!(
        finalize(handle),
        Status::BAD_PARAM,
        "strides of another tensor"
    );
    assert_eq!(set(handle, 903, INT64, &numbers), Status::SUCCESS);
    assert_eq!(finalize(handle), Status::SUCCESS);
    assert_eq!(finalize(handle), Status::BAD_PARAM);
    assert_eq!(set(handle, 902, INT64, &numbers), Status::BAD_PARAM);
}

#[test]
fn children_must_be_finalized_and_of_the_right_kind() {
    let operation = make(CONVOLUTION_FORWARD);
    let set_to = |child: Handle| set(operation, 704, DESCRIPTOR, &[child]);
    assert_eq!(set_to(0), Status::BAD_PARAM_NULL_POINTER);
    assert_eq!(set_to(make(TENSOR)), Status::BAD_PARAM_NOT_FINALIZED);
    assert_eq!(
        set_to(finalized(CONVOLUTION, &[])),
        Status::BAD_PARAM_DESCRIPTOR_TYPE
    );
    assert_eq!(set_to(operation), Status::BAD_PARAM_NOT_FINALIZED, "itself");
    assert_eq!(set_to(tensor([1, 1, 1, 1])), Status::SUCCESS);
    assert_eq!(finalize(operation), Status::BAD_PARAM, "no filter");
}

#[test]
fn engines_can_be_made_by_their_number() {
    let graph = graph();
    for (index, status, workspace) in [
        (0, Status::SUCCESS, WORKSPACE),
        (1, Status::SUCCESS, 0),
        (2, Status::NOT_SUPPORTED, -1),
        (-1, Status::NOT_SUPPORTED, -1),
    ] {
        let engine = make(ENGINE);
        assert_eq!(set(engine, 1300, DESCRIPTOR, &[graph]), Status::SUCCESS);
        assert_eq!(set(engine, 1301, INT64, &[index]), Status::SUCCESS);
        assert_eq!(finalize(engine), status);
        if status == Status::SUCCESS {
            let configuration = finalized(ENGINECFG, &[(300, engine)]);
            assert_eq!(numbers(configuration, 303, 1).2[0], workspace);
        }
    }
}

#[test]
fn results_go_into_descriptors_of_their_kind_only() {
    let graph = graph();
    let heuristics = finalized(ENGINEHEUR, &[(201, graph)]);
    let ask = |handles: &[Handle]| {
        let count = handles.len() as i64;
        get_attribute(
            heuristics,
            202,
            DESCRIPTOR,
            count,
            Out::NOWHERE,
            place(handles),
        )
    };
    assert_eq!(ask(&[0]), Status::BAD_PARAM_NULL_POINTER);
    assert_eq!(ask(&[77]), Status::BAD_PARAM);
    assert_eq!(ask(&[make(ENGINE)]), Status::BAD_PARAM_DESCRIPTOR_TYPE);
    let first = make(ENGINECFG);
    assert_eq!(
        ask(&[first, make(ENGINE)]),
        Status::BAD_PARAM_DESCRIPTOR_TYPE
    );
    assert_eq!(
        numbers(first, 303, 1).0,
        Status::BAD_PARAM_NOT_FINALIZED,
        "all or none"
    );
    assert_eq!(ask(&[first, 0xdead_0000, 3]), Status::BAD_PARAM);
    assert_eq!(ask(&[first]), Status::SUCCESS);
    assert_eq!(numbers(first, 303, 1).2[0], WORKSPACE);
}

#[test]
fn descriptors_end_once() {
    assert_eq!(create(KINDS, Out::to(&mut 0)), Status::NOT_SUPPORTED);
    assert_eq!(create(TENSOR, Out::NOWHERE), Status::BAD_PARAM_NULL_POINTER);
    let handle = make(TENSOR);
    assert_eq!(destroy(handle), Status::SUCCESS);
    assert_eq!(destroy(handle), Status::BAD_PARAM);
    assert_eq!(destroy(0), Status::BAD_PARAM_NULL_POINTER);
    assert_eq!(finalize(handle), Status::BAD_PARAM);
    assert_eq!(initialize(handle), Status::BAD_PARAM);
    let again = tensor([1, 1, 1, 1]);
    assert_eq!(initialize(again), Status::SUCCESS);
    assert_eq!(finalize(again), Status::BAD_PARAM, "empty again");
}

#[test]
fn chains_of_descriptors_have_an_end() {
    let mut last = tensor([1, 1, 1, 1]);
    let mut levels = 1;
    loop {
        let next = make(TENSOR);
        assert_eq!(set(next, 902, INT64, &[1_i64]), Status::SUCCESS);
        assert_eq!(set(next, 903, INT64, &[1_i64]), Status::SUCCESS);
        // A ragged offset is a tensor, too.
        assert_eq!(set(next, 913, DESCRIPTOR, &[last]), Status::SUCCESS);
        if finalize(next) != Status::SUCCESS {
            break;
        }
        (last, levels) = (next, levels + 1);
    }
    assert_eq!(levels, 64);
}

#[test]
fn executions_need_a_handle_a_plan_and_a_pack() {
    let graph = graph();
    let (_, configurations) = heuristics(graph, 2);
    let plan = finalized(PLAN, &[(401, configurations[0])]);
    let pack = finalized(VARIANT_PACK, &[]);
    assert_eq!(execute(0, plan, pack), Status::BAD_PARAM);
    assert_eq!(execute(77, plan, pack), Status::BAD_PARAM);
    let uneven = make(VARIANT_PACK);
    assert_eq!(set(uneven, 1000, INT64, &[1_i64]), Status::SUCCESS);
    assert_eq!(set(uneven, 1001, VOID_PTR, &[8_usize, 9]), Status::SUCCESS);
    assert_eq!(finalize(uneven), Status::BAD_PARAM);
}
