//! The books of all devices, and the books as JSON.

use super::device_books::DeviceBooks;
use gpumem_sim_card::Cards;
use gpumem_sim_machine::DeviceSpec;
use std::fmt::Write;
use std::sync::Arc;

/// The books of every device that is visible to the process.
#[derive(Clone, Debug)]
pub struct Books {
    devices: Vec<(String, DeviceBooks)>,
}

impl Books {
    /// Empty books for these devices, whose memory is taken from `cards` if they are shared.
    pub fn new<'a>(
        devices: impl IntoIterator<Item = &'a DeviceSpec>,
        cards: Option<Cards>,
    ) -> Self {
        let cards = cards.map(Arc::new);
        let empty = |spec: &DeviceSpec| (spec.uuid_text(), DeviceBooks::new(spec, cards.as_ref()));
        Self {
            devices: devices.into_iter().map(empty).collect(),
        }
    }

    /// The books of one device, by ordinal.
    pub fn device(&self, ordinal: usize) -> &DeviceBooks {
        &self.devices[ordinal].1
    }

    /// The mutable books of one device.
    pub fn device_mut(&mut self, ordinal: usize) -> &mut DeviceBooks {
        &mut self.devices[ordinal].1
    }

    /// The books of the device with this UUID.
    pub fn by_uuid(&self, uuid: &str) -> Option<&DeviceBooks> {
        let mut all = self.devices.iter();
        all.find(|(text, _)| text == uuid).map(|(_, books)| books)
    }

    /// The number of devices.
    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    /// All books as JSON (the layout is in docs/simulator.md).
    pub fn json(&self) -> String {
        let mut out = String::from("{\"devices\":[");
        for (ordinal, (uuid, books)) in self.devices.iter().enumerate() {
            if ordinal > 0 {
                out.push(',');
            }
            let _ = write!(
                out,
                "{{\"ordinal\":{ordinal},\"uuid\":\"{uuid}\",\"total_bytes\":{},\
                 \"context_bytes\":{},",
                books.total_bytes(),
                books.context_bytes()
            );
            books.write_json(&mut out);
            out.push('}');
        }
        out.push_str("]}\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::device_books::Counter;
    use super::super::kind::{Holding, Kind};
    use super::*;
    use crate::ffi::CuError;

    fn spec(index: u32, total_bytes: u64, other_bytes: u64) -> DeviceSpec {
        DeviceSpec {
            other_bytes,
            ..DeviceSpec::new(index, total_bytes)
        }
    }

    fn books() -> Books {
        Books::new(&[spec(0, 100, 0), spec(1, 50, 0)], None)
    }

    #[test]
    fn what_other_processes_have_is_not_free() {
        let mut books = Books::new(&[spec(0, 100, 30)], None);
        let device = books.device_mut(0);
        assert_eq!(device.free_bytes(), 70);
        assert_eq!(device.take_physical(71), Err(CuError::OUT_OF_MEMORY));
        assert_eq!(device.physical(), (0, 0));
    }

    #[test]
    fn the_peak_of_the_sum_is_not_the_sum_of_the_peaks() {
        let mut books = books();
        let device = books.device_mut(0);
        device.allocated(Kind::Device, 40);
        device.freed(Kind::Device, 40);
        device.allocated(Kind::Async, 30);
        assert_eq!(device.driver().peak, 40);
        assert_eq!(device.driver().current, 30);
        assert_eq!(device.driver().allocations, 2);
        assert_eq!(device.driver().frees, 1);
        assert_eq!(device.kind(Kind::Device).peak, 40);
        assert_eq!(device.kind(Kind::Async).peak, 30);
    }

    #[test]
    fn host_memory_is_not_device_memory() {
        let mut books = books();
        let device = books.device_mut(0);
        device.allocated(Kind::Host, 40);
        device.allocated(Kind::Registered, 2);
        assert_eq!(device.driver(), Counter::default());
        assert_eq!(device.by_name("host"), Some((40, 40)));
        assert_eq!(device.by_name("registered"), Some((2, 2)));
        device.freed(Kind::Host, 40);
        device.allocated(Kind::Registered, 3);
        assert_eq!(device.by_name("pinned"), Some((5, 42)));
        assert_eq!(device.pinned().frees, 1);
    }

    #[test]
    fn holdings_are_part_of_the_physical_bytes() {
        let mut books = books();
        let device = books.device_mut(0);
        assert_eq!(device.take_physical(30), Ok(()));
        device.holds(Holding::Context, 30);
        assert_eq!(
            device.take_resident(90, 20),
            60,
            "whole pages, as far as they fit"
        );
        device.give_held(Holding::Context, 10);
        assert_eq!(device.by_name("context"), Some((20, 30)));
        assert_eq!(device.by_name("resident"), Some((60, 60)));
        assert_eq!(device.by_name("module"), Some((0, 0)));
        assert_eq!(device.physical(), (80, 90));
        assert_eq!(device.by_name("something"), None);
    }

    #[test]
    fn a_refused_page_changes_nothing() {
        let mut books = books();
        let device = books.device_mut(1);
        assert_eq!(device.take_physical(50), Ok(()));
        assert_eq!(device.take_physical(1), Err(CuError::OUT_OF_MEMORY));
        assert_eq!(device.physical(), (50, 50));
        device.give_physical(20);
        assert_eq!(device.physical(), (30, 50));
        assert_eq!(device.free_bytes(), 20);
        assert_eq!(books.device(0).physical(), (0, 0));
    }

    #[test]
    fn the_json_has_the_agreed_layout() {
        let device = DeviceSpec {
            context_bytes: 7,
            ..spec(0, 100, 0)
        };
        let mut books = Books::new(&[device], None);
        books.device_mut(0).allocated(Kind::Managed, 3);
        let zero = r#"{"current":0,"peak":0,"allocations":0,"frees":0}"#;
        let none = r#"{"current":0,"peak":0}"#;
        let three = r#"{"current":3,"peak":3,"allocations":1,"frees":0}"#;
        assert_eq!(
            books.json(),
            format!(
                "{{\"devices\":[{{\"ordinal\":0,\"uuid\":\"{}\",\"total_bytes\":100,\
                 \"context_bytes\":7,\"kinds\":{{\"device\":{zero},\"managed\":{three},\
                 \"async\":{zero},\"vmm\":{zero},\"array\":{zero},\"graph\":{zero}}},\"driver\":{three},\
                 \"host\":{zero},\"registered\":{zero},\
                 \"pinned\":{zero},\"physical\":{none},\"resident\":{none},\"touched\":{none},\
                 \"context\":{none},\"module\":{none},\"lingering\":{none}}}]}}\n",
                spec(0, 100, 0).uuid_text()
            )
        );
    }
}
