//! Bodies that are sent piece by piece.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// A stream's pieces, and where they are put in. It has room for so many that are not sent yet.
pub fn stream(room: usize) -> (Sender, Stream) {
    let (sender, receiver) = mpsc::channel(room.max(1));
    (Sender(sender), Stream(receiver))
}

/// Where a stream's pieces are put in. The stream ends when this is dropped.
#[derive(Debug)]
pub struct Sender(mpsc::Sender<Bytes>);

/// The reader has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Sender {
    /// Puts a piece in without waiting; whether there was room for it.
    ///
    /// # Errors
    /// Where the reader has left.
    pub fn try_send(&self, piece: Bytes) -> Result<bool, Closed> {
        match self.0.try_send(piece) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Closed(_)) => Err(Closed),
        }
    }

    /// Whether the reader has left.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

/// The pieces of a body.
#[derive(Debug)]
pub struct Stream(mpsc::Receiver<Bytes>);

/// A body as hyper takes it.
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
