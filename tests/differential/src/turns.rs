//! Threads that call in turns: one step at a time, in the seed's order, so that the two sides can be
//! compared after every call.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::families::{context, step};
use crate::world::World;

/// The most threads of a program.
pub const THREADS: usize = 8;

#[derive(Clone, Copy)]
enum Order {
    /// One random step.
    Step,
    /// Leave every context, at the end of the sequence.
    Unbind,
}

/// Threads that wait for their turns.
pub struct Crew {
    world: Arc<Mutex<World>>,
    orders: Vec<Sender<Order>>,
    done: Receiver<()>,
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn obey(world: &Mutex<World>, order: Order) {
    let mut world = lock(world);
    match order {
        Order::Step => step(&mut world),
        Order::Unbind => context::unbind(&mut world),
    }
}

impl Crew {
    /// Starts the threads; the first is the caller's own.
    pub fn new(world: World) -> Self {
        let world = Arc::new(Mutex::new(world));
        let (finished, done) = channel();
        let orders = (1..THREADS)
            .map(|_| {
                let (order, orders) = channel();
                let (world, finished) = (Arc::clone(&world), finished.clone());
                thread::spawn(move || {
                    while let Ok(order) = orders.recv() {
                        obey(&world, order);
                        if finished.send(()).is_err() {
                            return;
                        }
                    }
                });
                order
            })
            .collect();
        Self {
            world,
            orders,
            done,
        }
    }

    /// The world, between sequences.
    pub fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    fn on(&self, thread: usize, order: Order) {
        match thread.checked_sub(1).and_then(|t| self.orders.get(t)) {
            None => obey(&self.world, order),
            Some(orders) => {
                // Both ends of the channel stay open while the crew exists.
                let _ = orders.send(order);
                let _ = self.done.recv();
            }
        }
    }

    /// Runs one sequence; the first difference ends it.
    pub fn run(&self, seed: u64, sequence: u64) {
        let (threads, steps) = {
            let mut world = self.world();
            world.begin(seed, sequence);
            let threads = match world.rng.below(4) {
                0..2 => 1,
                2 => world.rng.within(2, THREADS),
                _ => THREADS,
            };
            (threads, world.rng.within(8, 60))
        };
        let mut thread = 0;
        for step in 0..steps {
            {
                let mut world = self.world();
                if world.cuda.failure.is_some() {
                    return;
                }
                if world.rng.percent(25) {
                    thread = world.rng.below(threads);
                }
                (world.cuda.place.step, world.cuda.place.thread) = (step, thread);
            }
            self.on(thread, Order::Step);
        }
        for thread in 0..threads {
            self.world().cuda.place.thread = thread;
            self.on(thread, Order::Unbind);
        }
        let mut world = self.world();
        (world.cuda.place.step, world.cuda.place.thread) = (steps, 0);
        world.end();
        context::unbind(&mut world);
        if world.cuda.left_over().is_some() {
            // The card was full and had no room for a context to free memory in. It has now.
            world.end();
            context::unbind(&mut world);
        }
        if world.cuda.failure.is_none() {
            world.cuda.statistics.sequences += 1;
        }
        if let Some(left) = world.cuda.left_over() {
            world.cuda.fail(&format!("at the end: {left}"));
        }
    }
}
