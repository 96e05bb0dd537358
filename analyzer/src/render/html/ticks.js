// Where ticks of an axis are, and what stands at them.

function ticks(most, wanted, steps) {
  const step = steps.find((each) => most / each <= wanted) || steps[steps.length - 1];
  return step;
}

function byteStep(most) {
  let step = 1;
  while (most / step > 6) step *= 2;
  return step;
}

function timeStep(span) {
  const all = [];
  for (let power = 1; power < 1e10; power *= 10) for (const digit of [1, 2, 5]) all.push(power * digit);
  const seconds = [20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400].map((s) => s * 1e9);
  return ticks(span, 8, all.filter((step) => step <= 1e10).concat(seconds));
}

function tickText(at, step) {
  if (step >= 1e10) return time(at).replace(/\.\d+$/, "");
  const decimals = Math.max(0, 9 - Math.floor(Math.log10(step)));
  return (at / 1e9).toFixed(decimals) + " s";
}
