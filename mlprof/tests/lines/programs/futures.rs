//! Async functions, on one thread and moved between threads.
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

struct Yield(bool);

impl Future for Yield {
    type Output = u32;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        if self.0 { //= 17
            return Poll::Ready(1); //= 8
        }
        self.0 = true; //= 9
        context.waker().wake_by_ref(); //= 9
        Poll::Pending //= 9
    }
}

async fn leaf(n: u32) -> u32 {
    let mut sum = 0; //= 3
    for _ in 0..n { //= 9
        sum += Yield(false).await; //= 6
    }
    sum //= 3
}

async fn outer() -> Result<u32, String> {
    let first = leaf(1) //= 1
        .await; //= 1
    let handle = async { //= 1
        let second = leaf(2).await; //= 1
        Ok::<u32, String>(second) //= 1
    };
    let third = handle.await?; //= 1
    Err::<u32, String>("x".into()).or_else(|_| Ok(first + third)) //= 1
}

async fn spawned() -> u32 {
    let before = Yield(false).await; //= 2
    let after = leaf(3) //= 1
        .await; //= 1
    before + after //= 1
}

async fn joined(text: &mut String) -> usize {
    let reference = &mut *text; //= 1
    reference.push('x'); //= 1
    let mut future = Yield(false); //= 1
    (&mut future).await; //= 1
    reference.len() //= 1
}

struct Nothing;
impl Wake for Nothing {
    fn wake(self: Arc<Self>) {}
}

pub fn run() {
    let waker = Waker::from(Arc::new(Nothing));
    let mut first = Box::pin(outer());
    let done = std::iter::repeat_with(|| first.as_mut().poll(&mut Context::from_waker(&waker)))
        .find_map(|poll| match poll {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        });
    assert_eq!(done, Some(Ok(3)));
    // Each poll runs on a new thread.
    let mut moving: Pin<Box<dyn Future<Output = u32> + Send>> = Box::pin(spawned());
    let result = loop {
        let (back, poll) = std::thread::spawn(move || {
            let waker = Waker::from(Arc::new(Nothing));
            let poll = moving.as_mut().poll(&mut Context::from_waker(&waker));
            (moving, poll)
        })
        .join()
        .unwrap();
        moving = back;
        if let Poll::Ready(value) = poll {
            break value;
        }
    };
    assert_eq!(result, 4);
    let mut text = String::new();
    let mut future = Box::pin(joined(&mut text));
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {}
    // This future is dropped while it is pending.
    let mut dropped: Pin<Box<dyn Future<Output = u32> + Send>> = Box::pin(spawned());
    assert!(dropped.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
}
