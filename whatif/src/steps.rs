//! Reads the steps of one device's pool from a capture.

use std::path::Path;

use gpumem_capture::{
    Definition, DeviceOrdinal, Event, EventKind, Level, PlacementId, ReadError, Reader, Record,
};

/// The source of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// CUDA's handle of the stream, in the recorded process.
    pub(crate) stream: u64,
    /// Its number in PyTorch.
    pub(crate) stream_id: Option<u64>,
    pub(crate) pool: (u64, u64),
}

/// The placements of a device by their numbers.
#[derive(Debug)]
pub(crate) struct Placements([Placement; 256]);

impl Default for Placements {
    fn default() -> Self {
        Self([Placement::default(); 256])
    }
}

impl Placements {
    pub(crate) fn of(&self, id: PlacementId) -> Placement {
        self.0.get(usize::from(id.0)).copied().unwrap_or_default()
    }

    pub(crate) fn define(
        &mut self,
        device: DeviceOrdinal,
        definition: &Definition,
    ) -> Option<Placement> {
        let Definition::Placement {
            id,
            device: of,
            stream,
            stream_id,
            pool,
        } = definition
        else {
            return None;
        };
        if *of != device {
            return None;
        }
        let placement = Placement {
            stream: *stream,
            stream_id: *stream_id,
            pool: *pool,
        };
        *self.0.get_mut(usize::from(id.0))? = placement;
        Some(placement)
    }
}

/// Receives the records of a capture.
pub(crate) trait Steps {
    /// Takes in a definition.
    fn define(&mut self, definition: &Definition);

    /// Takes in an event of any device and level.
    fn event(&mut self, seq: u64, event: &Event);

    /// Takes in an event of the device's tensors, or a call of the allocator that concerns it; returns false to stop.
    fn step(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool;

    /// Takes in the part of the capture that has been read, from 0 to 1.
    fn progress(&mut self, _: f64) {}
}

/// Reads a capture to its end, or until a step returns false.
pub(crate) fn read(
    path: &Path,
    device: DeviceOrdinal,
    steps: &mut dyn Steps,
) -> Result<(), String> {
    let mut reader = Reader::open(path).map_err(|error| error.to_string())?;
    // Several replays run at the same time.
    reader.decode_on(1);
    let progress = reader.progress();
    let mut placements = Placements::default();
    let (mut goes_on, mut since) = (true, 0_u32);
    let mut see = |record: Record<'_>| {
        if !goes_on {
            return;
        }
        match record {
            Record::Definition(_, definition) => {
                placements.define(device, definition);
                steps.define(definition);
            }
            Record::Event(seq, event) => {
                steps.event(seq.0, event);
                if event.level == Level::TENSOR && concerns(event, device) {
                    goes_on = steps.step(seq.0, event, &placements);
                }
                since += 1;
                if since == 1 << 16 {
                    since = 0;
                    steps.progress(progress.position() as f64 / progress.total().max(1) as f64);
                }
            }
            Record::State(..) => {}
        }
    };
    reader
        .read(&mut see)
        .map_err(|error: ReadError| error.to_string())?;
    Ok(())
}

fn concerns(event: &Event, device: DeviceOrdinal) -> bool {
    event.device == device
        || event.kind == EventKind::ALLOCATOR && event.device == DeviceOrdinal::NONE
}
