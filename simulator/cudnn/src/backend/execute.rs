//! Executions of plans.

use super::attribute::{PLAN, VARIANT_PACK};
use super::descriptor::Finalized;
use super::graph::{Needs, needs};
use super::query::PLAN_CONFIGURATION;
use super::store::{entries, finalized};
use crate::handle;
use crate::launch::{launch, take_time};
use crate::status::{Done, Status, pointer, require, status};
use gpumem_sim_client::ffi::{Handle, Out};
use std::sync::Arc;

/// `CUDNN_ATTR_VARIANT_PACK_WORKSPACE`.
const WORKSPACE: u32 = 1003;

/// The delay of later events after an execution without the workspace that the best engine
/// requests. So programs that time the engines always choose the best one, even on a busy machine.
const RETREAT_NANOSECONDS: u64 = 1_000_000_000;

/// The needs of a finalized plan, and a finalized variant pack.
fn plan_and_pack(plan: Handle, pack: Handle) -> Done<(Needs, Arc<Finalized>)> {
    let entries = entries();
    let plan = finalized(&entries, plan)?;
    let pack = finalized(&entries, pack)?;
    let fits = plan.kind == PLAN && pack.kind == VARIANT_PACK;
    require(fits, Status::BAD_PARAM_DESCRIPTOR_TYPE)?;
    let configuration = plan.child(PLAN_CONFIGURATION).ok_or(Status::BAD_PARAM)?;
    Ok((needs(configuration), pack))
}

/// `cudnnBackendExecute`.
pub fn execute(handle: Handle, plan: Handle, pack: Handle) -> Status {
    let execute = || -> Done {
        handle::stream(handle)?;
        let (needs, pack) = plan_and_pack(plan, pack)?;
        let has_workspace = pack
            .numbers(WORKSPACE)
            .first()
            .is_some_and(|place| *place != 0);
        let enough = needs.workspace == 0 || has_workspace;
        require(enough, Status::BAD_PARAM_NULL_POINTER)?;
        launch(handle)?;
        if needs.is_retreat {
            take_time(RETREAT_NANOSECONDS);
        }
        Ok(())
    };
    status(execute())
}

/// `cudnnGetExecutionPlanWorkspaceSize`.
pub fn plan_workspace(handle: Handle, plan: Handle, pack: Handle, bytes: Out<usize>) -> Status {
    let ask = || -> Done {
        handle::stream(handle)?;
        let (needs, _) = plan_and_pack(plan, pack)?;
        pointer(bytes.put(needs.workspace as usize))
    };
    status(ask())
}
