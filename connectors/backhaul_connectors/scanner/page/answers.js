// Tells an answer by a sound, and aloud if somebody wants it.

// Hertz and seconds: high for accepted, low and twice for refused, one between for kept.
const TONES = {
  good: [[880, 0.12]],
  bad: [[220, 0.3], [165, 0.4]],
  kept: [[440, 0.15]],
};
const SPOKEN = { good: "", bad: "Refused: ", kept: "Kept. " };
let sound = null;

export const canSpeak = () => "speechSynthesis" in window;

export function beep(kind) {
  // Browsers allow no sound before somebody has pressed a key in the page.
  if (!TONES[kind] || navigator.userActivation?.hasBeenActive === false) return;
  sound ??= new AudioContext();
  sound.resume();
  let start = sound.currentTime;
  for (const [pitch, seconds] of TONES[kind]) {
    const tone = sound.createOscillator();
    const loudness = sound.createGain();
    tone.frequency.value = pitch;
    loudness.gain.setValueAtTime(0.3, start);
    loudness.gain.exponentialRampToValueAtTime(0.001, start + seconds);
    tone.connect(loudness).connect(sound.destination);
    tone.start(start);
    tone.stop(start + seconds);
    start += seconds;
  }
}

// The newest answer is the one that matters: what is still being said ends.
export function say(kind, what) {
  if (!(kind in SPOKEN) || !canSpeak()) return;
  const sentence = new SpeechSynthesisUtterance(SPOKEN[kind] + what);
  sentence.lang = document.documentElement.lang;
  speechSynthesis.cancel();
  speechSynthesis.speak(sentence);
}

export function silence() {
  if (canSpeak()) speechSynthesis.cancel();
}
