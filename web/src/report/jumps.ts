// What somebody goes to on purpose: the browser's Back leads to what was shown before it.

let isOne = false;

/** Does something that the browser's Back undoes. */
export function jump(does: () => void): void {
  isOne = true;
  does();
  isOne = false;
}

/** Whether what changes now is a jump that nobody has asked for yet. */
export function takeJump(): boolean {
  const was = isOne;
  isOne = false;
  return was;
}
