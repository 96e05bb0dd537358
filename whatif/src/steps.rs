//! What a capture says of one device's pool, step by step.

use std::path::Path;

use gpumem_capture::{
    Definition, DeviceOrdinal, Event, EventKind, Level, PlacementId, ReadError, Reader, Record,
};

/// Where a block comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// CUDA's handle of the stream, in the recorded process.
    pub(crate) stream: u64,
    /// PyTorch's number of it.
    pub(crate) stream_id: Option<u64>,
    pub(crate) pool: (u64, u64),
}

/// What the placements of a device stand for.
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

/// Sees what a capture says.
pub(crate) trait Steps {
    /// A definition.
    fn define(&mut self, definition: &Definition);

    /// An event of any device and level.
    fn event(&mut self, seq: u64, event: &Event);

    /// An event of the device's tensors, or a call of the allocator that concerns it; false: no more.
    fn step(&mut self, seq: u64, event: &Event, placements: &Placements) -> bool;

    /// How much of the capture has been read, of 1.
    fn progress(&mut self, _: f64) {}
}

/// Reads a capture to its end, or until no more is wanted.
pub(crate) fn read(
    path: &Path,
    device: DeviceOrdinal,
    steps: &mut dyn Steps,
) -> Result<(), String> {
    let mut reader = Reader::open(path).map_err(|error| error.to_string())?;
    // Several replays run beside one another.
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
