//! Threads that call at once. At barriers, where all threads wait, the two sides are compared.

use std::sync::Barrier;
use std::thread;

use crate::cuda::Cuda;
use crate::driver::Driver;
use crate::families::{context, host, step};
use crate::statistics::Statistics;
use crate::world::{Families, World};

/// What the threads of a sequence share.
pub struct Common {
    /// The driver.
    pub driver: &'static Driver,
    /// The families of calls.
    pub families: Families,
    /// Devices of the machine.
    pub devices: usize,
}

/// Runs one sequence with several threads and returns the calls that they made. `world` keeps every
/// primary context alive meanwhile, and compares.
pub fn run(world: &mut World, common: &Common, seed: u64, sequence: u64) -> Statistics {
    world.begin(seed, sequence);
    let ledger = world.cuda.ledger.take();
    let threads = world.rng.within(2, crate::turns::THREADS + 1);
    let rounds = world.rng.within(2, 5);
    for device in 0..common.devices as i32 {
        context::retain(world, device);
    }
    let barrier = Barrier::new(threads + 1);
    let arena = world.arena;
    let mut all = Statistics::default();
    let mut ledger = ledger;
    thread::scope(|scope| {
        let workers: Vec<_> = (1..=threads)
            .map(|thread| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let place = arena + (thread * host::SLOT * host::SLOTS) as u64;
                    let cuda = Cuda::new(common.driver, seed);
                    let mut world = World::new(cuda, common.devices, common.families, place);
                    world.alone = false;
                    let own = seed.wrapping_mul(31).wrapping_add(thread as u64);
                    world.begin(own, sequence);
                    for _ in 0..rounds {
                        for _ in 0..world.rng.within(5, 25) {
                            step(&mut world);
                        }
                        barrier.wait();
                        barrier.wait();
                    }
                    context::unbind(&mut world);
                    world.end();
                    context::unbind(&mut world);
                    world.cuda.statistics
                })
            })
            .collect();
        for round in 0..rounds {
            barrier.wait();
            world.cuda.place.step = round;
            if world.cuda.failure.is_none()
                && let Some(difference) = ledger.as_mut().and_then(|l| l.compare_at_barrier())
            {
                world.cuda.fail(&format!("at a barrier: {difference}"));
            }
            barrier.wait();
        }
        for worker in workers {
            if let Ok(statistics) = worker.join() {
                all.add(&statistics);
            }
        }
    });
    world.cuda.place.step = rounds;
    world.end();
    if let Some(ledger) = &mut ledger {
        if world.cuda.failure.is_none()
            && let Some(difference) = ledger.compare_at_barrier()
        {
            world.cuda.fail(&format!("at the end: {difference}"));
        }
        if let Some(left) = ledger.left_over() {
            world.cuda.fail(&format!("at the end: {left}"));
        }
        ledger.rebase();
    }
    world.cuda.ledger = ledger;
    all.sequences += u64::from(world.cuda.failure.is_none());
    all
}
