//! Bodies that are sent in chunks.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// A stream and its sender. The stream buffers up to `room` chunks.
pub fn stream(room: usize) -> (Sender, Stream) {
    let (sender, receiver) = mpsc::channel(room.max(1));
    (Sender(sender), Stream(receiver))
}

/// Sends the chunks of a stream. The stream ends when the sender is dropped.
#[derive(Debug)]
pub struct Sender(mpsc::Sender<Bytes>);

/// The reader closed the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Sender {
    /// Adds a chunk without waiting; returns whether the buffer had space.
    ///
    /// # Errors
    /// If the reader closed the connection.
    pub fn try_send(&self, piece: Bytes) -> Result<bool, Closed> {
        match self.0.try_send(piece) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Closed(_)) => Err(Closed),
        }
    }

    /// Whether the reader closed the connection.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The chunks of a body.
#[derive(Debug)]
pub struct Stream(mpsc::Receiver<Bytes>);

/// A body for hyper.
pub(crate) enum Outgoing {
    Whole(Option<Bytes>),
    Stream(Stream),
}

impl hyper::body::Body for Outgoing {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Stream(stream) => stream.0.poll_recv(context),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
