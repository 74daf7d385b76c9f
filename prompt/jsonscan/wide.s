// Empty: that there is one tells the compiler that functions without a body are not forgotten.
