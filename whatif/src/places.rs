//! Placements of blocks that a restore of a pool allocates; only the replay has these.

use gpumem_capture::{Definition, DeviceOrdinal, PlacementId};
use rustc_hash::FxHashMap;

use crate::decisions::Source;

/// Recorded placements, by the streams and pools of this process that represent them.
#[derive(Debug, Default)]
pub(crate) struct Places(FxHashMap<Source, PlacementId>);

impl Places {
    /// A block of a recorded placement came from this source.
    pub(crate) fn see(&mut self, source: Source, placement: PlacementId) {
        if placement != PlacementId::UNKNOWN {
            self.0.insert(source, placement);
        }
    }

    /// A number that is defined again loses its previous meaning.
    pub(crate) fn define(&mut self, device: DeviceOrdinal, definition: &Definition) {
        if let Definition::Placement { id, device: of, .. } = definition
            && *of == device
        {
            self.0.retain(|_, placement| placement != id);
        }
    }

    /// The newest placement of blocks from this source.
    pub(crate) fn of(&self, source: Source) -> PlacementId {
        self.0.get(&source).copied().unwrap_or(PlacementId::UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_given_again_is_not_known() {
        let mut places = Places::default();
        let (first, second) = ((7, (1, 0)), (8, (1, 0)));
        places.see(first, PlacementId(3));
        places.see(second, PlacementId(4));
        places.see(second, PlacementId::UNKNOWN);
        let here = DeviceOrdinal(1);
        let mut define = |device| {
            let definition = Definition::Placement {
                id: PlacementId(3),
                device: DeviceOrdinal(device),
                stream: 9,
                stream_id: None,
                pool: (2, 0),
            };
            places.define(here, &definition);
            places.of(first)
        };
        assert_eq!(define(0), PlacementId(3));
        assert_eq!(define(1), PlacementId::UNKNOWN);
        assert_eq!(places.of(second), PlacementId(4));
    }
}
