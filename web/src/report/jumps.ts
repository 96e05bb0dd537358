// Jumps: deliberate navigation, which the browser's Back button undoes.

let isOne = false;

/** Runs a change that the browser's Back button undoes. */
export function jump(does: () => void): void {
  isOne = true;
  does();
  isOne = false;
}

/** Whether the current change is a jump that was not taken yet. */
export function takeJump(): boolean {
  const was = isOne;
  isOne = false;
  return was;
}
