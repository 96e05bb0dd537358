//! Writes protocol buffers: only the wire types that the messages of profiles need.
//!
//! A field is its number and wire type in one varint, followed by its value: a varint (type 0), or a
//! length and that many bytes (type 2). Fields that are 0 or empty are omitted, as in proto3.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const BYTES: u64 = 2;

impl Message {
    /// A number.
    pub(super) fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    /// A truth value.
    pub(super) fn flag(&mut self, field: u64, value: bool) {
        self.number(field, u64::from(value));
    }

    /// Numbers of a repeated field, packed. Zeros count.
    pub(super) fn numbers(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut packed = Self::default();
        values.into_iter().for_each(|value| packed.varint(value));
        if !packed.bytes.is_empty() {
            self.bytes_of(field, &packed.bytes);
        }
    }

    /// Another message. Empty ones are written, because the field may be repeated.
    pub(super) fn message(&mut self, field: u64, message: &Self) {
        self.bytes_of(field, &message.bytes);
    }

    /// One text of a repeated field. Empty ones are written.
    pub(super) fn text(&mut self, field: u64, text: &str) {
        self.bytes_of(field, text.as_bytes());
    }

    /// The bytes so far.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes. Empty ones are written.
    pub(super) fn bytes_of(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Seven bits a byte, the lowest first; the eighth bit is set if more bytes follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_varints() {
        for (value, expected) in [
            (1, &[8, 1][..]),
            (127, &[8, 127]),
            (128, &[8, 0x80, 1]),
            (300, &[8, 0xac, 2]),
            (
                u64::MAX,
                &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
            ),
        ] {
            let mut message = Message::default();
            message.number(1, value);
            assert_eq!(message.as_bytes(), expected, "{value}");
        }
    }

    #[test]
    fn the_documentations_own_examples() {
        // https://protobuf.dev/programming-guides/encoding: Test2, Test3 and Test5.
        let mut message = Message::default();
        message.text(2, "testing");
        assert_eq!(message.as_bytes(), b"\x12\x07testing");
        let (mut inner, mut outer) = (Message::default(), Message::default());
        inner.number(1, 150);
        outer.message(3, &inner);
        assert_eq!(outer.as_bytes(), [0x1a, 3, 8, 0x96, 1]);
        let mut packed = Message::default();
        packed.numbers(6, [3, 270, 86_942]);
        assert_eq!(packed.as_bytes(), [0x32, 6, 3, 0x8e, 2, 0x9e, 0xa7, 5]);
    }

    #[test]
    fn what_is_zero_is_left_out_but_never_of_several() {
        let mut message = Message::default();
        message.number(1, 0);
        message.flag(2, false);
        message.numbers(3, []);
        assert!(message.as_bytes().is_empty());
        message.numbers(3, [0, 0]);
        message.text(6, "");
        message.message(4, &Message::default());
        assert_eq!(message.as_bytes(), [0x1a, 2, 0, 0, 0x32, 0, 0x22, 0]);
    }
}
